#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// ResourceExhausted QUOTA_EXCEEDED: `what` of the project would exceed `max`. `limit` is the name
// of the field in nerf.v1.Project.Quota.
absl::Status QuotaExceeded(std::string_view project, std::string_view limit, double max,
                           std::string_view what);

// Whether the project may have `n_jobs` more queued jobs, and has bytes left for their results. A
// project with few jobs may also have them while others fill the queue. Errors: ResourceExhausted
// QUOTA_EXCEEDED or QUEUE_FULL.
absl::Status CheckNewJob(const QueueState& state, const std::string& project, size_t n_jobs = 1)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Whether the project may have one more scene, job or model whose record takes so many bytes
// (BytesOf). All records are in memory, so those of one project have a limit, and all have another.
// Errors: ResourceExhausted QUOTA_EXCEEDED, with `limit` record_bytes.
absl::Status CheckNewRecord(const QueueState& state, const std::string& project, uint64_t bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Whether the project may have one more upload that no resource names yet. Errors:
// ResourceExhausted QUOTA_EXCEEDED, with `limit` unnamed_uploads.
absl::Status CheckNewUpload(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Whether settings may be stored for the project. Errors: ResourceExhausted QUOTA_EXCEEDED, with
// `limit` projects.
absl::Status CheckNewSettings(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Whether the project may store `more` bytes.
absl::Status CheckStoredBytes(const QueueState& state, const std::string& project, uint64_t more)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// Records of projects, in all. Beyond it a project without one is not metered.
inline constexpr size_t kMaxProjectRecords = 20'000;
// Whether an admin has changed something of the project.
inline bool HasSettings(const ProjectRecord& record) {
  return record.quota != ProjectQuota() || record.retention != ProjectRetention();
}

// Number of leases that workers hold or are about to get.
size_t LeasesOf(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Why the project may not be granted one more lease now, for people; empty if it may.
std::string WhyNoMoreLeases(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Whether its workers' time of the day is used, `times` over.
bool DayIsUsed(const QueueState& state, const std::string& project, double times = 1)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// Bytes of what the project's resources name and of its uploads since that was counted.
uint64_t StoredBytesOf(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// The day of a meter: days since 1970 in UTC.
int64_t DayOf(absl::Time time);

// Counts a lease that is being granted in a scope. Requires: the lock is held at its begin and end.
class GrantInProgress {
 public:
  GrantInProgress(QueueState& state, std::string project) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
  ~GrantInProgress();  // requires state.mu; not annotated, because the analysis cannot follow it
  GrantInProgress(const GrantInProgress&) = delete;
  GrantInProgress& operator=(const GrantInProgress&) = delete;

 private:
  QueueState& state_;
  const std::string project_;
};

}  // namespace nerf
