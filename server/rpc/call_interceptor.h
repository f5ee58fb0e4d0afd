#pragma once

#include <grpcpp/support/server_interceptor.h>

#include "common/ids.h"
#include "server/metrics/rpc_metrics.h"

namespace nerf {

// Interceptor of every call: counts it (grpc_server_*), gives it a request id and logs one line at
// its end. The messages of INTERNAL and UNKNOWN errors may hold request data or paths, so they are
// replaced by the request id.
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
