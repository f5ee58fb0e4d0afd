#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/queue/jobs/job_row.h"
#include "server/queue/jobs/watch_log.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// Which rows of the lists of jobs changed last. Every change of a job gets the next version; a
// reader that knows all rows up to a version asks for those above it. Of a job only its last change
// is kept. Versions begin anew with every process. Not thread-safe: guarded by the queue's lock.
class RowLog {
 public:
  static constexpr size_t kMaxDeleted = 1'000;

  // The job was created or has changed. Adds the signals of its project's readers to `wake`.
  void Changed(const ResourceKey& job, std::vector<std::shared_ptr<WatchSignal>>& wake);
  void Deleted(const ResourceKey& job, std::vector<std::shared_ptr<WatchSignal>>& wake);

  // The version of the last change.
  uint64_t version() const { return version_; }
  // The first change above `version`.
  std::optional<std::pair<uint64_t, ResourceKey>> After(uint64_t version) const;
  // Whether an earlier job of this name was deleted in this process, so that a reader may still
  // show that one.
  bool WasDeleted(const ResourceKey& job) const { return deleted_before_.contains(job); }
  // True if a deletion above `version` is no longer kept.
  bool HasGapAfter(uint64_t version) const { return version < forgotten_; }

  // The row of a job as it is now. Requires: Changed was called since a change of it.
  std::shared_ptr<const JobRow> RowOf(const Job& job) { return rows_.Get(job); }

  void Subscribe(const std::string& project, std::shared_ptr<WatchSignal> signal);
  void Unsubscribe(const std::string& project, const std::shared_ptr<WatchSignal>& signal);

 private:
  void Move(const ResourceKey& job);
  void SignalAll(const std::string& project, std::vector<std::shared_ptr<WatchSignal>>& wake) const;

  uint64_t version_ = 0;
  uint64_t forgotten_ = 0;  // of the last deletion that is no longer kept
  std::map<uint64_t, ResourceKey> jobs_;
  std::map<ResourceKey, uint64_t> version_of_;
  JobRows rows_;                // of watchers and lists; the last watcher that leaves empties them
  std::set<uint64_t> deleted_;  // versions
  std::set<ResourceKey> deleted_before_;
  std::multimap<std::string, std::shared_ptr<WatchSignal>> signals_;  // by project
};

}  // namespace nerf
