#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/rpc/calls/request_broker.h"
#include "server/rpc/calls/service_context.h"

namespace google::protobuf {
class Message;
}

namespace nerf {

// A unary call that a worker answers. If the caller leaves or its deadline passes, the request is
// cancelled at the worker. Time limit: the caller's deadline, at most max_request_timeout, or
// request_timeout without one. Owns itself until gRPC is done with it.
class BrokeredCall final : public grpc::ServerUnaryReactor,
                           public std::enable_shared_from_this<BrokeredCall> {
 public:
  // Makes the request. Runs on the executor.
  using Prepare = std::function<absl::StatusOr<BrokerRequest>()>;
  // Fills the response from the worker's reply. Also called with errors, which it may replace. Runs
  // on the executor where the reply becomes blobs.
  using Complete = std::function<absl::Status(absl::StatusOr<BrokerReply>)>;

  // Authorizes and starts the call. Returns the reactor for gRPC.
  static UnaryReactor* Begin(const ServiceContext& services, std::string_view method,
                             CallContext* context, const google::protobuf::Message& request,
                             Prepare prepare, Complete complete);

  void OnCancel() override;
  void OnDone() override;

 private:
  BrokeredCall(const ServiceContext& services, Complete complete)
      : services_(services), complete_(std::move(complete)) {}
  void Run(const Prepare& prepare, absl::Duration timeout, const std::string& caller,
           const v1::CallOrigin& origin);
  void FinishOnce(absl::StatusOr<BrokerReply> reply);

  const ServiceContext& services_;
  const Complete complete_;
  Mutex mu_;
  std::shared_ptr<BrokeredCall> self_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool in_blobs_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<uint64_t> number_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
