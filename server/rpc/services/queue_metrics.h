#pragma once

#include "server/metrics/server_metrics.h"
#include "server/queue/jobs/queue_observer.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Counts the queue's events. `metrics` outlives it.
class QueueMetrics final : public QueueObserver {
 public:
  explicit QueueMetrics(ServerMetrics* metrics) : metrics_(*metrics) {}

  void OnJobCreated(const Job& job) override;
  void OnJobFinished(const Job& job) override;
  void OnAttemptEnded(const Job& job, std::string_view result) override;
  void OnJobLeftQueue(absl::Duration waited) override;
  void OnWatchEvent(absl::Duration delay) override;
  void OnWatchGap(bool resumed) override;
  void OnLeaseExpired(const Job& job) override;
  void OnFencedWrite(std::string_view call) override;
  void OnCommit(absl::Duration duration, bool ok) override;

 private:
  ServerMetrics& metrics_;
};

// Sets the gauges: jobs, queue, leases, workers, watchers, blobs.
void PublishGauges(const QueueStats& stats, const std::vector<WorkerRecord>& workers,
                   const BlobStoreStats& blobs, ServerMetrics* metrics);

}  // namespace nerf
