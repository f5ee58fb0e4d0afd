#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/rpc/status_conversion.h"
#include "server/rpc/calls/change_log.h"
#include "server/rpc/calls/lane_limit.h"
#include "server/rpc/calls/method_lane.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Answers a unary call: checks permission, runs `body` (which fills the response and returns a
// Status; it may take the Principal) in the method's lane of the executor, and finishes with what
// it returned. A call that was cancelled before its turn came is not executed, and one is refused
// while too many wait for theirs. `made` is the response with the name of a new resource, for the
// log; null where none is made.
template <typename Request, typename Body>
UnaryReactor* AnswerUnary(const ServiceContext& services, std::string_view method,
                          CallContext* context, const Request& request, Body body,
                          const google::protobuf::Message* made = nullptr) {
  UnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<Principal> principal = services.authorizer.Check(method, *context, request);
  if (!principal.ok()) {
    reactor->Finish(ToGrpcStatus(principal.status()));
    return reactor;
  }
  // A worker's report is never refused: it would lose what it trained.
  const size_t byte_size =
      method.starts_with("nerf.v1.WorkerService/") ? 0 : 1 + request.ByteSizeLong();
  const bool posted = services.executor.TryPost(
      LaneOf(method), byte_size,
      [reactor, context, method, made, &request, origins = services.origins,
       principal = *std::move(principal), body = std::move(body)]() mutable {
        if (context->IsCancelled()) {
          return reactor->Finish(grpc::Status(grpc::CANCELLED, "the caller is gone"));
        }
        absl::Status status;
        if constexpr (std::is_invocable_v<Body, const Principal&>) {
          status = body(principal);
        } else {
          status = body();
        }
        LogChange(method, principal, origins->CallerOf(context).peer, origins->Of(context), request,
                  made, status);
        reactor->Finish(ToGrpcStatus(status));
      });
  if (!posted) reactor->Finish(ToGrpcStatus(TooManyCalls()));
  return reactor;
}

}  // namespace nerf
