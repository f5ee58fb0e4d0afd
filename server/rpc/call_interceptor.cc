#include "server/rpc/call_interceptor.h"

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "common/logging.h"

namespace nerf {
namespace {

using grpc::experimental::InterceptionHookPoints;

class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(RpcMethodMetrics* metrics, std::string method, std::string request_id)
      : metrics_(*metrics),
        method_(std::move(method)),
        request_id_(std::move(request_id)),
        start_(std::chrono::steady_clock::now()) {
    metrics_.Started();
  }

  // gRPC destroys it last, with the call's context.
  ~CallInterceptor() override {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const int code = code_.load();
    metrics_.Handled(code, seconds);
    Log(code == grpc::OK || code == grpc::CANCELLED ? LogLevel::kDebug : LogLevel::kInfo, "call",
        {{"request_id", request_id_},
         {"method", method_},
         {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))},
         {"seconds", seconds}});
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() != nullptr) {
      metrics_.MessageReceived();
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      metrics_.MessageSent();
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      code_ = status.error_code();
      if (status.error_code() == grpc::INTERNAL || status.error_code() == grpc::UNKNOWN) {
        LogError(
            "call failed with an internal error",
            {{"request_id", request_id_}, {"method", method_}, {"error", status.error_message()}});
        methods->ModifySendStatus(grpc::Status(
            status.error_code(),
            "internal server error; see request_id in the server's log: " + request_id_));
      }
    }
    methods->Proceed();
  }

 private:
  RpcMethodMetrics& metrics_;
  const std::string method_;
  const std::string request_id_;
  const std::chrono::steady_clock::time_point start_;
  // Code of a call that ends without sending a status.
  std::atomic<int> code_{grpc::CANCELLED};
};

}  // namespace

grpc::experimental::Interceptor* CallInterceptorFactory::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  return new CallInterceptor(metrics_.Find(info->method()), info->method(),
                             NewShortId("r", random_));
}

}  // namespace nerf
