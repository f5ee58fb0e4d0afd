#include "server/rpc/services/queue_metrics.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "server/queue/kinds/kind_policy.h"

namespace nerf {
namespace {

std::string LowerCase(std::string_view text) {
  return absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
}

}  // namespace

void QueueMetrics::OnJobCreated(const Job& job) { metrics_.JobCreated(job.key.project); }

void QueueMetrics::OnJobFinished(const Job& job) {
  const std::string result = LowerCase(JobStateName(job.state));
  metrics_.JobFinished(job.key.project, result, job.error.reason);
  if (job.start_time != absl::InfinitePast()) {
    metrics_.JobRan(LowerCase(TraitsOf(job).name), result,
                    absl::ToDoubleSeconds(job.end_time - job.start_time));
  }
  if (TraitsOf(job).makes_scene) {
    metrics_.PosesMatched(job.progress.pose().matches_per_second());
  }
}

void QueueMetrics::OnAttemptEnded(const Job& job, std::string_view result) {
  metrics_.AttemptEnded(result);
}

void QueueMetrics::OnJobLeftQueue(absl::Duration waited) {
  metrics_.JobLeftQueue(absl::ToDoubleSeconds(waited));
}

void QueueMetrics::OnWatchEvent(absl::Duration delay) {
  metrics_.WatchEventTaken(absl::ToDoubleSeconds(delay));
}

void QueueMetrics::OnWatchGap(bool resumed) { metrics_.WatchGap(resumed ? "resumed" : "live"); }

void QueueMetrics::OnLeaseExpired(const Job& job) { metrics_.LeaseExpired(); }

void QueueMetrics::OnFencedWrite(std::string_view call) {
  // All other calls with a lease are made for messages of Synchronize.
  metrics_.WriteFenced(call == "CommitCheckpoint" ? "CommitCheckpoint" : "Synchronize");
}

void QueueMetrics::OnCommit(absl::Duration duration, bool ok) {
  if (ok) {
    metrics_.StoreCommitted(absl::ToDoubleSeconds(duration));
  } else {
    metrics_.StoreCommitFailed();
  }
}

void PublishGauges(const QueueStats& stats, const std::vector<WorkerRecord>& workers,
                   const BlobStoreStats& blobs, ServerMetrics* metrics) {
  std::map<std::pair<std::string, std::string>, size_t> jobs;
  for (const auto& [key, count] : stats.jobs) {
    jobs[{key.first, std::string(JobStateName(key.second))}] = count;
  }
  metrics->SetJobs(jobs);
  std::map<std::string, size_t> pose_jobs;
  for (const auto& [key, count] : stats.jobs_of_kind) {
    if (TraitsOf(key.first).makes_scene) pose_jobs[std::string(JobStateName(key.second))] = count;
  }
  metrics->SetPoseJobs(pose_jobs);
  metrics->SetQueue(stats.n_queued, absl::ToDoubleSeconds(stats.oldest_queued_age));
  metrics->SetLeases(stats.n_leases);
  metrics->SetWatchers(stats.n_watchers);
  std::map<std::string, size_t> by_state;
  for (const WorkerRecord& worker : workers) ++by_state[LowerCase(WorkerStateName(worker.state))];
  metrics->SetWorkers(by_state);
  metrics->SetBlobStore(blobs.byte_size, blobs.free_bytes);
}

}  // namespace nerf
