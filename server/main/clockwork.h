#pragma once

#include <optional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/access/jwt_keys.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/queue/upkeep/resource_retention.h"
#include "server/queue/upkeep/stall_clock.h"
#include "server/rpc/connections/health_server.h"
#include "server/rpc/services/rpc_server.h"
#include "server/store/blob_scrubber.h"
#include "server/store/blob_store.h"
#include "server/store/s3/moving_blob_store.h"

namespace nerf {

// Periodic work: expires leases, keeps up jobs (JobUpkeep), ends the streams of silent workers,
// sets gauges and health, deletes what is not kept, collects blobs that nothing refers to, scrubs
// the others and moves them into a bucket. A thread for each of the four, so that neither a long
// collection nor a slow disk delays a lease.
class Clockwork {
 public:
  struct Parts {
    StallClock* clock = nullptr;
    JobStore* store = nullptr;
    QueueState* state = nullptr;
    JobQueue* queue = nullptr;
    LeaseTable* leases = nullptr;
    WorkerTable* workers = nullptr;
    BlobStore* blobs = nullptr;
    RpcServer* rpc = nullptr;
    HealthServer* health = nullptr;  // may be null
    ServerMetrics* metrics = nullptr;
    JwtKeys* jwt_keys = nullptr;  // may be null
    QueueAdmin* admin = nullptr;
    JobUpkeep* upkeep = nullptr;
    ResourceRetention* retention = nullptr;
    BlobScrubber* scrubber = nullptr;
    MovingBlobStore* moving = nullptr;  // may be null
    std::string certificate = {};       // file of the server's own; empty without TLS
  };
  // All outlive it.
  explicit Clockwork(const Parts& parts);
  ~Clockwork();
  Clockwork(const Clockwork&) = delete;
  Clockwork& operator=(const Clockwork&) = delete;

  // After true health says SERVING unless the store is read-only, after false NOT_SERVING. Before
  // the first call it is not touched.
  void SetServing(bool serving) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void RunTicks();
  void RunCollector();
  void RunScrubber();
  void RunMover();
  void PublishGauges();
  // The file may be replaced while the server runs.
  void PublishCertificate();
  // Health says NOT_SERVING while the store is read-only, and the store is tried until it is not.
  void FollowStore() ABSL_LOCKS_EXCLUDED(mu_);
  void ShowHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits. Returns false when stopping.
  bool Sleep(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mu_);

  const Parts parts_;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<bool> serving_ ABSL_GUARDED_BY(mu_);
  bool read_only_ ABSL_GUARDED_BY(mu_) = false;
  // Of the ticker alone.
  int ticks_read_only_ = 0;
  bool warned_of_certificate_ = false;
  std::thread ticker_, collector_, scrubber_, mover_;
};

}  // namespace nerf
