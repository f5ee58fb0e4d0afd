#pragma once

#include <grpcpp/support/server_interceptor.h>

#include "common/ids.h"
#include "server/metrics/rpc_metrics.h"
#include "server/rpc/connections/call_guard.h"
#include "server/rpc/connections/call_origins.h"
#include "server/rpc/connections/connection_table.h"

namespace nerf {

// Interceptor of every call: counts it (grpc_server_*), gives it a request id and a span in the
// caller's trace (metadata `traceparent`) or a new one, and logs one line at its end. The caller
// gets the request id as `x-request-id`. The messages of INTERNAL and UNKNOWN errors may hold
// request data or paths, so they are replaced by the request id.
class CallInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // All outlive the server.
  CallInterceptorFactory(const RpcMetrics* metrics, RandomSource* random, CallOrigins* origins,
                         ConnectionTable* connections, CallGuard* guard)
      : metrics_(*metrics),
        random_(*random),
        origins_(*origins),
        connections_(*connections),
        guard_(*guard) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  const RpcMetrics& metrics_;
  RandomSource& random_;
  CallOrigins& origins_;
  ConnectionTable& connections_;
  CallGuard& guard_;
};

}  // namespace nerf
