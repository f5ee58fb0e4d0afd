#pragma once

#include <grpcpp/support/client_interceptor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "server/access/access_control.h"
#include "server/access/blob_owners.h"
#include "server/access/token_registry.h"
#include "server/access/worker_keys.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/rpc/calls/executor.h"
#include "server/rpc/calls/service_context.h"
#include "server/store/backup.h"
#include "server/store/blob_store.h"

namespace grpc {
class Channel;
class ServerCredentials;
}  // namespace grpc

namespace nerf {

struct RpcServerOptions {
  std::string listen;                                         // host:port; empty: in process only
  std::shared_ptr<grpc::ServerCredentials> credentials = {};  // of ServerTls; plaintext without
  std::string local_listen = {};  // another address, in plaintext: a socket for this machine
  ExecutorThreads threads;
  ServiceTimes times;
  // Connections that would get a descriptor of this number or a higher one are refused.
  int max_descriptor = 4096;
  // Half-received messages of all connections; those that hold the most are closed beyond it.
  uint64_t max_held_bytes = uint64_t{160} << 20;
  // Buffers of all connections in gRPC, also of what was not sent yet.
  int64_t max_buffer_bytes = int64_t{384} << 20;
};

// The gRPC server of nerfd: all services, health and reflection. Thread-safe.
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
    const AccessControl* access = nullptr;
    TokenRegistry* tokens = nullptr;
    WorkerKeys* worker_keys = nullptr;
    BlobOwners* blob_owners = nullptr;
    // Writes a backup of this name. Unset: BackupStore is UNIMPLEMENTED.
    std::function<absl::StatusOr<BackupSummary>(const std::string& id)> backup = {};
    QueueAdmin* admin = nullptr;
  };

  // Starts to serve. Errors: FailedPrecondition if it cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          const Dependencies& dependencies);
  // Shuts down at once unless Shutdown was called.
  ~RpcServer();

  // The port it listens on; 0 if in process only.
  int port() const;

  // A channel without a socket. `interceptors` are for tests.
  std::shared_ptr<grpc::Channel> InProcessChannel(
      std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
          interceptors = {});

  // Whether the value of an Authorization header has a valid token, for gateways that ask before
  // they forward a call. Errors: Unauthenticated TOKEN_MISSING, TOKEN_INVALID, TOKEN_EXPIRED.
  absl::Status CheckToken(std::string_view authorization) const;

  // What the services run on, for tests.
  Executor& executor();

  // Sets the answer of the health service, for the server and every service. The service "liveness"
  // is always SERVING while the process answers.
  void SetServing(bool serving);

  // Ends the streams of silent workers, and connections that hold too much. Call a few times a
  // second.
  void Tick();

  // Ends streams with UNAVAILABLE DRAINING, waits up to `grace` for other calls and cancels the
  // rest. Call at most once.
  void Shutdown(absl::Duration grace);

 private:
  struct State;
  explicit RpcServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace nerf
