#pragma once

#include <grpcpp/support/server_interceptor.h>

#include "common/ids.h"
#include "server/metrics/rpc_metrics.h"

namespace nerf {

// What every call passes through: counts it (grpc_server_*), gives it a request id and writes one
// log line at its end, and replaces the words of INTERNAL and UNKNOWN errors, which may hold
// request data or paths, by that id.
class CallInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // Both outlive the server.
  CallInterceptorFactory(const RpcMetrics* metrics, RandomSource* random)
      : metrics_(*metrics), random_(*random) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  const RpcMetrics& metrics_;
  RandomSource& random_;
};

}  // namespace nerf
