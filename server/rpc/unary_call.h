#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <string_view>
#include <utility>

#include "common/rpc/status_conversion.h"
#include "server/rpc/method_lane.h"
#include "server/rpc/service_context.h"

namespace nerf {

// Answers a unary call: checks permission, runs `body`, which fills the response and returns a
// Status, in the method's lane of the executor, and finishes with that status. A call that is
// cancelled while it waits is not executed.
template <typename Body>
grpc::ServerUnaryReactor* AnswerUnary(const ServiceContext& services, std::string_view method,
                                      grpc::CallbackServerContext* context, Body body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (absl::Status status = services.authorizer.Check(method, *context); !status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  services.executor.Post(LaneOf(method), [reactor, context, body = std::move(body)]() mutable {
    if (context->IsCancelled()) {
      return reactor->Finish(grpc::Status(grpc::CANCELLED, "the caller is gone"));
    }
    reactor->Finish(ToGrpcStatus(body()));
  });
  return reactor;
}

}  // namespace nerf
