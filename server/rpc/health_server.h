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
// "liveness" serves as long as the process answers; "readiness", and the empty name, while nerfd
// takes work. Thread-safe.
class HealthServer {
 public:
  // Starts to serve, not ready. listen: host:port. FailedPrecondition when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& listen);
  ~HealthServer();

  int port() const { return port_; }
  void SetReady(bool ready);

 private:
  HealthServer();

  int port_ = 0;
  // Answers every other method UNIMPLEMENTED; a server of gRPC needs a service beside health.
  const std::unique_ptr<grpc::CallbackGenericService> others_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace nerf
