#pragma once

#include <thread>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/job_queue.h"
#include "server/queue/lease_table.h"
#include "server/queue/queue_state.h"
#include "server/queue/stall_clock.h"
#include "server/queue/worker_table.h"
#include "server/rpc/rpc_server.h"
#include "server/store/blob_store.h"

namespace nerf {

// Periodic work: expires leases, ends the streams of silent workers, sets gauges, and collects
// blobs that nothing refers to. Two threads, so that a long collection delays no lease.
class Clockwork {
 public:
  struct Parts {
    StallClock* clock = nullptr;
    QueueState* state = nullptr;
    JobQueue* queue = nullptr;
    LeaseTable* leases = nullptr;
    WorkerTable* workers = nullptr;
    BlobStore* blobs = nullptr;
    RpcServer* rpc = nullptr;
    ServerMetrics* metrics = nullptr;
  };
  // All outlive it.
  explicit Clockwork(const Parts& parts);
  ~Clockwork();
  Clockwork(const Clockwork&) = delete;
  Clockwork& operator=(const Clockwork&) = delete;

 private:
  void RunTicks();
  void RunCollector();
  void PublishGauges();
  // Waits. Returns false when stopping.
  bool Sleep(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mu_);

  const Parts parts_;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread ticker_, collector_;
};

}  // namespace nerf
