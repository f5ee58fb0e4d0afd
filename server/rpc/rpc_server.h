#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/job_queue.h"
#include "server/queue/lease_table.h"
#include "server/queue/model_catalog.h"
#include "server/queue/scene_catalog.h"
#include "server/queue/worker_table.h"
#include "server/rpc/service_context.h"
#include "server/store/blob_store.h"

namespace grpc {
class Channel;
}

namespace nerf {

struct RpcServerOptions {
  std::string listen;  // host:port; empty: in process only
  std::string worker_token;
  ExecutorThreads threads;
  ServiceTimes times;
};

// Every service of nerfd on one gRPC server, with health and reflection. Thread-safe.
class RpcServer {
 public:
  // All outlive the server.
  struct Dependencies {
    Clock* clock = nullptr;
    RandomSource* random = nullptr;
    JobQueue* queue = nullptr;
    LeaseTable* leases = nullptr;
    SceneCatalog* scenes = nullptr;
    ModelCatalog* models = nullptr;
    WorkerTable* workers = nullptr;
    BlobStore* blobs = nullptr;
    ServerMetrics* metrics = nullptr;
  };

  // Starts to serve. FailedPrecondition when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          const Dependencies& dependencies);
  // Shuts down at once where Shutdown was not called.
  ~RpcServer();

  // The port that it listens on; 0 when in process only.
  int port() const;

  // A channel that needs no socket, for tests.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // What the health service says, of the whole and of every service.
  void SetServing(bool serving);

  // Drops workers that went silent. Call a few times a second.
  void Tick();

  // Ends streams with UNAVAILABLE DRAINING, waits for other calls up to `grace` and cancels the
  // rest. May be called once.
  void Shutdown(absl::Duration grace);

 private:
  struct State;
  explicit RpcServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace nerf
