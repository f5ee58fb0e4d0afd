#include "server/rpc/services/brokered_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/rpc/status_conversion.h"
#include "server/rpc/calls/lane_limit.h"
#include "server/rpc/convert/render_reply.h"

namespace nerf {
namespace {

absl::Duration TimeoutOf(const grpc::CallbackServerContext& context, const ServiceTimes& times) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return times.request_timeout;
  return std::min(absl::FromChrono(deadline - std::chrono::system_clock::now()),
                  times.max_request_timeout);
}

}  // namespace

UnaryReactor* BrokeredCall::Begin(const ServiceContext& services, std::string_view method,
                                  CallContext* context, const google::protobuf::Message& request,
                                  Prepare prepare, Complete complete) {
  std::shared_ptr<BrokeredCall> call(new BrokeredCall(services, std::move(complete)));
  {
    MutexLock lock(call->mu_);
    call->self_ = call;
  }
  const auto principal = services.authorizer.Check(method, *context, request);
  if (!principal.ok()) {
    call->Finish(ToGrpcStatus(principal.status()));
    return call.get();
  }
  const bool posted = services.executor.TryPost(
      Lane::kQuick, 1 + request.ByteSizeLong(),
      [call, prepare = std::move(prepare), timeout = TimeoutOf(*context, services.times),
       caller = principal->name,
       origin = services.origins->Of(context)] { call->Run(prepare, timeout, caller, origin); });
  if (!posted) call->FinishOnce(TooManyCalls());
  return call.get();
}

void BrokeredCall::Run(const Prepare& prepare, absl::Duration timeout, const std::string& caller,
                       const v1::CallOrigin& origin) {
  bool cancelled = false;
  {
    MutexLock lock(mu_);
    cancelled = cancelled_;
  }
  if (cancelled) return FinishOnce(absl::CancelledError("the caller is gone"));
  absl::StatusOr<BrokerRequest> request = prepare();
  if (!request.ok()) return FinishOnce(request.status());
  if (request->is_known) return FinishOnce(BrokerReply());
  if (timeout <= absl::ZeroDuration()) {
    return FinishOnce(
        absl::DeadlineExceededError("the deadline passed before the request reached a worker"));
  }
  request->timeout = timeout;
  request->caller = caller;
  *request->message.mutable_origin() = origin;
  {
    MutexLock lock(mu_);
    in_blobs_ = request->message.render().view().in_blobs();
  }
  const absl::StatusOr<uint64_t> number = services_.broker.Start(
      *std::move(request), [call = shared_from_this()](absl::StatusOr<BrokerReply> reply) {
        call->FinishOnce(std::move(reply));
      });
  if (!number.ok()) return FinishOnce(number.status());
  {
    MutexLock lock(mu_);
    number_ = *number;
    cancelled = cancelled_;
  }
  if (cancelled) services_.broker.Cancel(*number, absl::CancelledError("the caller cancelled"));
}

void BrokeredCall::OnCancel() {
  std::optional<uint64_t> number;
  {
    MutexLock lock(mu_);
    cancelled_ = true;
    number = number_;
  }
  if (number.has_value()) {
    services_.broker.Cancel(*number, absl::CancelledError("the caller cancelled"));
  }
}

void BrokeredCall::FinishOnce(absl::StatusOr<BrokerReply> reply) {
  bool writes_blobs = false;
  {
    MutexLock lock(mu_);
    if (std::exchange(finished_, true)) return;
    writes_blobs = reply.ok() && (in_blobs_ || reply->bytes.size() > kMaxInlineImageBytes);
  }
  auto finish = [call = shared_from_this(), reply = std::move(reply)]() mutable {
    call->Finish(ToGrpcStatus(call->complete_(std::move(reply))));
  };
  if (writes_blobs) return services_.executor.Post(Lane::kUpload, std::move(finish));
  finish();
}

void BrokeredCall::OnDone() {
  std::shared_ptr<BrokeredCall> self;
  {
    MutexLock lock(mu_);
    self.swap(self_);
  }
}

}  // namespace nerf
