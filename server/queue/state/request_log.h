#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/queue/state/job_store.h"

namespace nerf {

// The requests that are remembered, so that a repeated one makes nothing new. Not thread-safe:
// guarded by the queue's lock.
class RequestLog {
 public:
  using Key = std::pair<std::string, std::string>;  // project and request id

  // The id of the resource that an earlier request with this id made; nullopt for an empty or
  // unknown id. AlreadyExists REQUEST_ID_REUSED if project, kind or fingerprint of that request
  // differ.
  absl::StatusOr<std::optional<std::string>> Find(const RequestRecord& request) const;
  // Remembers a request that has an id. The oldest ones are forgotten beyond a limit.
  void Remember(const RequestRecord& request);
  size_t size() const { return requests_.size(); }

  // A record of a deleted job, kept as long as requests. A new job with the same id continues its
  // lease epoch and event sequence, so that no lease or watch token of the deleted job is valid for
  // it.
  static RequestRecord RecordOfDeletedJob(const Job& job, absl::Time now);
  // Sets lease epoch and event sequence of a new job to continue those of a deleted one with its
  // id.
  void CountOnFromDeletedJob(Job& job) const;

  // Slices: each call looks at up to `n` requests, those after `*from` if that is given, and
  // advances it. Returns false at the end.
  bool VisitSlice(size_t n, Key* from,
                  const std::function<void(const RequestRecord&)>& visit) const;
  // Forgets the requests of the project of `*from` that are older than `before`.
  bool ForgetSliceOf(size_t n, Key* from, absl::Time before);
  // Forgets those of all projects.
  bool ForgetSlice(size_t n, absl::Time before);

 private:
  std::map<Key, RequestRecord> requests_;
  // The same by age. Entries of replaced requests remain and are ignored.
  std::multimap<absl::Time, Key> order_;
};

}  // namespace nerf
