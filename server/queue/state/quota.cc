#include "server/queue/state/quota.h"

#include <fmt/format.h>

#include <utility>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"

namespace nerf {
namespace {

// A project with fewer than this share of max_queued_jobs may queue jobs although others have
// filled the queue.
constexpr size_t kReservedQueueShare = 100;

// All projects may have records of so many times as many bytes as one.
constexpr uint64_t kAllRecordsShare = 4;
// Of a project, while no scene names them: five scenes of as many files as one may have. An
// upload's record takes some 150 bytes.
constexpr size_t kMaxUnnamedUploads = 100'000;

const ProjectQuota& QuotaOf(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu) {
  static const ProjectQuota kUnlimited;
  const ProjectRecord* const found = state.FindProject(project);
  return found == nullptr ? kUnlimited : found->quota;
}

size_t QueuedJobsOf(const QueueState& state, const std::string& project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu) {
  size_t n = state.index().CountOf(project, JobState::kQueued);
  for (const auto& [key, job] : state.jobs_in_creation()) n += key.project == project ? 1 : 0;
  return n;
}

// QUEUE_FULL for a project that has `n_of_project` queued jobs.
absl::Status CheckQueueRoom(const QueueState& state, size_t n_of_project)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu) {
  const size_t max = state.options.max_queued_jobs;
  const size_t n_queued = state.index().n_waiting() + state.jobs_awaiting_poses().size() +
                          state.jobs_in_creation().size();
  const bool uses_reserve = n_of_project < max / kReservedQueueShare;
  if (n_queued < max || (uses_reserve && n_queued < 2 * max)) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(fmt::format("{} jobs are queued already", n_queued)),
      reason::kQueueFull);
}

}  // namespace

absl::Status QuotaExceeded(std::string_view project, std::string_view limit, double max,
                           std::string_view what) {
  return WithReason(absl::ResourceExhaustedError(
                        fmt::format("project {} may have {} {} ({})", project, max, what, limit)),
                    reason::kQuotaExceeded,
                    {{"project", std::string(project)},
                     {"limit", std::string(limit)},
                     {"max", fmt::format("{}", max)}});
}

absl::Status CheckNewJob(const QueueState& state, const std::string& project, size_t n_jobs) {
  const size_t n_queued = QueuedJobsOf(state, project) + n_jobs - 1;
  NERF_RETURN_IF_ERROR(CheckQueueRoom(state, n_queued));
  const uint64_t max = QuotaOf(state, project).max_queued_jobs;
  if (max > 0 && n_queued >= max) {
    return QuotaExceeded(project, "max_queued_jobs", static_cast<double>(max), "queued jobs");
  }
  return CheckStoredBytes(state, project, 0);
}

absl::Status CheckNewRecord(const QueueState& state, const std::string& project, uint64_t bytes) {
  const uint64_t max = state.options.max_record_bytes;
  const uint64_t used = state.RecordBytesOf(project);
  const bool fits_all = state.all_record_bytes() + bytes <= kAllRecordsShare * max;
  if (used + bytes <= max && fits_all) return absl::OkStatus();
  return QuotaExceeded(
      project, "record_bytes", static_cast<double>(max),
      fmt::format("bytes of lists of files, paths and other records of its scenes, jobs and models "
                  "(all projects {} times as many, and have {}), has {}, and this one takes {}; "
                  "delete ended jobs, scenes or models",
                  kAllRecordsShare, state.all_record_bytes(), used, bytes));
}

absl::Status CheckNewUpload(const QueueState& state, const std::string& project) {
  const StoredBytes* const stored = state.stored_use().Of(project);
  if (stored == nullptr || stored->uploads.size() < kMaxUnnamedUploads) {
    return absl::OkStatus();
  }
  return QuotaExceeded(project, "unnamed_uploads", static_cast<double>(kMaxUnnamedUploads),
                       "uploaded files that no scene names; create the scenes, which are counted "
                       "every two minutes");
}

absl::Status CheckNewSettings(const QueueState& state, const std::string& project) {
  const ProjectRecord* const found = state.FindProject(project);
  if (found != nullptr && HasSettings(*found)) return absl::OkStatus();
  size_t n = 0;
  for (const auto& [name, record] : state.projects()) n += HasSettings(record) ? 1 : 0;
  if (n < kMaxProjectRecords / 2) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(fmt::format("{} projects have settings already", n)),
      reason::kQuotaExceeded,
      {{"project", project},
       {"limit", "projects"},
       {"max", fmt::format("{}", kMaxProjectRecords / 2)}});
}

absl::Status CheckStoredBytes(const QueueState& state, const std::string& project, uint64_t more) {
  const uint64_t max = QuotaOf(state, project).max_stored_bytes;
  if (max == 0) return absl::OkStatus();
  const uint64_t stored = StoredBytesOf(state, project);
  if (stored < max && more <= max - stored) return absl::OkStatus();
  return QuotaExceeded(project, "max_stored_bytes", static_cast<double>(max),
                       fmt::format("stored bytes and has {}", stored));
}

size_t LeasesOf(const QueueState& state, const std::string& project) {
  size_t n = 0;
  for (auto it = state.lease_deadlines().lower_bound({{project, ""}, 0});
       it != state.lease_deadlines().end() && it->first.job.project == project; ++it) {
    // A training by several workers is one job.
    n += it->first.part == 0 || TraitsOf(state.FindEntry(it->first.job)->job).has_part_leases ? 1
                                                                                              : 0;
  }
  return n + state.GrantsInProgress(project);
}

std::string WhyNoMoreLeases(const QueueState& state, const std::string& project) {
  const uint64_t max = QuotaOf(state, project).max_running_jobs;
  if (max > 0 && LeasesOf(state, project) >= max) {
    return fmt::format("project {} has {} {} at work, as many as it may", project, max,
                       max == 1 ? "job" : "jobs");
  }
  if (DayIsUsed(state, project)) {
    return fmt::format("project {} has used the {} s of its workers' time of the day", project,
                       QuotaOf(state, project).max_device_seconds_per_day);
  }
  return {};
}

bool DayIsUsed(const QueueState& state, const std::string& project, double times) {
  const ProjectRecord* const found = state.FindProject(project);
  if (found == nullptr) return false;
  const ProjectRecord& record = *found;
  const double max = record.quota.max_device_seconds_per_day;
  return max > 0 && record.day == DayOf(state.clock.WallNow()) &&
         record.device_seconds >= times * max;
}

uint64_t StoredBytesOf(const QueueState& state, const std::string& project) {
  const StoredBytes* const found = state.stored_use().Of(project);
  return found == nullptr ? 0 : found->named + found->uploaded;
}

int64_t DayOf(absl::Time time) { return absl::ToInt64Hours(time - absl::UnixEpoch()) / 24; }

GrantInProgress::GrantInProgress(QueueState& state, std::string project)
    : state_(state), project_(std::move(project)) {
  ++state_.grants_in_progress_[project_];
}

GrantInProgress::~GrantInProgress() {
  state_.mu.AssertHeld();
  const auto found = state_.grants_in_progress_.find(project_);
  if (--found->second == 0) state_.grants_in_progress_.erase(found);
}

}  // namespace nerf
