#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/rpc/request_broker.h"
#include "server/rpc/service_context.h"

namespace nerf {

// A unary call that a worker answers. A caller that goes away (or whose deadline passes) cancels
// the request at the worker. The request may take what the caller's deadline leaves (an hour at
// most), or request_timeout where there is none. Owns itself until gRPC is done with it.
class BrokeredCall final : public grpc::ServerUnaryReactor,
                           public std::enable_shared_from_this<BrokeredCall> {
 public:
  // What to ask for; runs on the executor.
  using Prepare = std::function<absl::StatusOr<BrokerRequest>()>;
  // Fills the response from the worker's bytes. Hears of errors too, and may change them.
  using Complete = std::function<absl::Status(absl::StatusOr<BrokerReply>)>;

  // Checks permission and begins. Returns the reactor to hand to gRPC.
  static grpc::ServerUnaryReactor* Begin(const ServiceContext& services, std::string_view method,
                                         grpc::CallbackServerContext* context, Prepare prepare,
                                         Complete complete);

  void OnCancel() override;
  void OnDone() override;

 private:
  BrokeredCall(const ServiceContext& services, Complete complete)
      : services_(services), complete_(std::move(complete)) {}
  void Run(const Prepare& prepare, absl::Duration timeout);
  void FinishOnce(absl::StatusOr<BrokerReply> reply);

  const ServiceContext& services_;
  const Complete complete_;
  Mutex mu_;
  std::shared_ptr<BrokeredCall> self_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<uint64_t> number_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
