#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_row.h"
#include "server/queue/state/job_filter.h"
#include "server/queue/state/queue_place.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// A list of jobs to follow.
struct JobListRequest {
  std::string project;
  JobFilter filter;
  size_t max_jobs = 100;  // of those that are there, the newest; later ones come in addition
  std::string token;      // of an earlier batch of the same list; empty: from the current jobs
};

struct ListedJob {
  std::shared_ptr<const JobRow> row;
  QueuePlace place;  // of a queued job
};

ListedJob ListedJobOf(QueueState& state, const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

struct JobListBatch {
  bool reset = false;                // what the reader knows is void
  std::vector<ListedJob> jobs;       // as they are now
  std::vector<ResourceKey> removed;  // deleted, or no longer of the list
  bool is_current = false;           // nothing else is known to have changed
  std::string token;                 // continues after this batch; empty before the first one that
                                     // is current
};

// One reader's position in the changes of a list of jobs. It gets each job that changed as it is
// when it asks: nothing is buffered for it, so a slow reader costs nothing. First come the jobs
// that are there, newest first, unless a token of this process continues an earlier list.
// Thread-safe, but meant for one reader. `state` outlives it.
class JobListWatcher {
 public:
  static constexpr size_t kMaxBatch = 100;

  // `on_new` runs, on any thread and without locks held, whenever TryNext may have something: it
  // should only wake the reader. Errors: InvalidArgument FIELD_INVALID for a token that this
  // process did not make for this project and filter, though it claims so.
  static absl::StatusOr<std::unique_ptr<JobListWatcher>> Open(QueueState* state,
                                                              JobListRequest request,
                                                              std::function<void()> on_new);
  ~JobListWatcher();
  JobListWatcher(const JobListWatcher&) = delete;
  JobListWatcher& operator=(const JobListWatcher&) = delete;

  // The next batch, or nullopt when nothing is new. Never waits for the store.
  std::optional<JobListBatch> TryNext();
  // A token of the current position; empty before the first current batch.
  std::string Token();

 private:
  JobListWatcher(QueueState* state, JobListRequest request, std::shared_ptr<WatchSignal> signal);
  // Subscribes, then continues from the request's token.
  absl::Status Start() ABSL_LOCKS_EXCLUDED(state_.mu);
  void Restart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Continues after `token` if it is of this process and list.
  absl::Status Resume(std::string_view token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void AddPresent(JobListBatch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void AddChanged(JobListBatch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The next change of the list, if there is one. Moves the position over those of other lists.
  std::optional<std::pair<uint64_t, ResourceKey>> NextChange()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  std::string TokenLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
  const JobListRequest request_;
  const std::shared_ptr<WatchSignal> signal_;
  bool reset_due_ ABSL_GUARDED_BY(state_.mu) = false;
  // While the jobs that are there are sent: the next is below this create_sequence.
  std::optional<uint64_t> below_ ABSL_GUARDED_BY(state_.mu);
  size_t n_present_ ABSL_GUARDED_BY(state_.mu) = 0;   // sent of them
  uint64_t floor_ ABSL_GUARDED_BY(state_.mu) = 0;     // create_sequence of the oldest of the list
  uint64_t position_ ABSL_GUARDED_BY(state_.mu) = 0;  // version up to which changes were sent
};

}  // namespace nerf
