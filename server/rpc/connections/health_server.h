#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class CallbackGenericService;
class Server;
}  // namespace grpc

namespace nerf {

// grpc.health.v1.Health on a port of its own, for probes that speak neither TLS nor tokens. Service
// "liveness" is always SERVING; "readiness" and the empty name are while nerfd accepts work.
// "leader" is while it leads its replicas. Thread-safe.
class HealthServer {
 public:
  // Starts to serve, as not ready. listen: host:port. FailedPrecondition if it cannot listen on the
  // address.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& listen);
  ~HealthServer();

  int port() const { return port_; }
  void SetReady(bool ready);
  // The service "leader": whether this replica, or the only nerfd, leads.
  void SetLeading(bool leads);

 private:
  HealthServer();

  int port_ = 0;
  // Answers all other methods with UNIMPLEMENTED. A gRPC server needs one service besides health.
  const std::unique_ptr<grpc::CallbackGenericService> others_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace nerf
