#include "server/rpc/connections/call_interceptor.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "common/logging.h"
#include "common/trace_context.h"
#include "common/web_peer.h"

namespace nerf {
namespace {

using grpc::experimental::InterceptionHookPoints;

constexpr std::string_view kInProcess = "unknown";  // gRPC names no peer within a process
constexpr size_t kMaxRefusalBytes = 300;            // it may quote the request

class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(RpcMethodMetrics* metrics, std::string method, RandomSource* random,
                  const grpc::ServerContextBase* call, CallOrigins* origins,
                  ConnectionTable* connections, CallGuard* guard)
      : metrics_(*metrics),
        method_(std::move(method)),
        random_(*random),
        call_(call),
        origins_(*origins),
        connections_(*connections),
        guard_(*guard),
        request_id_(NewShortId("r", *random)),
        start_(std::chrono::steady_clock::now()) {
    guard_.Began();
    metrics_.Started();
  }

  // gRPC destroys it last, with the call's context.
  ~CallInterceptor() override {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const int code = code_.load();
    metrics_.Handled(code, seconds);
    const Caller caller = origins_.CallerOf(call_);
    origins_.Drop(call_);
    if (peer_.has_value()) connections_.Ended(*peer_);
    guard_.Ended();
    if (!has_message_) guard_.EndedEmpty();
    Log(code == grpc::OK || code == grpc::CANCELLED ? LogLevel::kDebug : LogLevel::kInfo, "call",
        {{"request_id", request_id_},
         {"trace_id", trace_id_},
         {"method", method_},
         {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))},
         {"seconds", seconds},
         {"principal", caller.principal},
         {"peer", caller.peer},
         {"refusal", refusal_}});
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      Begin(methods->GetRecvInitialMetadata());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("x-request-id", request_id_);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() != nullptr) {
      has_message_ = true;
      metrics_.MessageReceived();
      CountBytes(methods->GetRecvMessage());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      metrics_.MessageSent();
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      code_ = status.error_code();
      if (code_ == grpc::UNAUTHENTICATED || code_ == grpc::PERMISSION_DENIED) {
        refusal_ = status.error_message().substr(0, kMaxRefusalBytes);
      }
      if (status.error_code() == grpc::INTERNAL || status.error_code() == grpc::UNKNOWN) {
        LogError("call failed with an internal error", {{"request_id", request_id_},
                                                        {"trace_id", trace_id_},
                                                        {"method", method_},
                                                        {"error", status.error_message()}});
        methods->ModifySendStatus(grpc::Status(
            status.error_code(),
            "internal server error; see request_id in the server's log: " + request_id_));
      }
    }
    methods->Proceed();
  }

 private:
  void Begin(const std::multimap<grpc::string_ref, grpc::string_ref>* metadata) {
    std::optional<TraceContext> parent;
    if (metadata != nullptr) {
      if (const auto found = metadata->find("traceparent"); found != metadata->end()) {
        parent = ParseTraceparent({found->second.data(), found->second.size()});
      }
    }
    const TraceContext span = NewSpan(parent, random_);
    trace_id_ = span.trace_id;
    v1::CallOrigin origin;
    origin.set_traceparent(span.ToString());
    origin.set_request_id(request_id_);
    std::string peer = call_->peer();
    peer_ = ConnectionTable::ParsePeer(peer);
    if (metadata != nullptr && peer == kInProcess) {
      const auto web = metadata->find(kWebPeerMetadata);
      if (web != metadata->end()) {
        peer = "web:" + std::string(web->second.data(), web->second.size());
      }
    }
    origins_.Set(call_, std::move(origin), std::move(peer));
    if (peer_.has_value()) connections_.Began(*peer_);
  }

  // Other methods than ours have messages that are no protos.
  void CountBytes(const void* message) {
    if (!method_.starts_with("/nerf.v1.") && !method_.starts_with("/google.bytestream.")) return;
    if (!peer_.has_value()) return;
    const auto* proto = static_cast<const google::protobuf::MessageLite*>(message);
    connections_.Received(*peer_, proto->ByteSizeLong());
  }

  RpcMethodMetrics& metrics_;
  const std::string method_;
  RandomSource& random_;
  const grpc::ServerContextBase* const call_;
  CallOrigins& origins_;
  ConnectionTable& connections_;
  CallGuard& guard_;
  std::optional<ConnectionTable::Peer> peer_;  // of a call by TCP
  const std::string request_id_;
  std::string trace_id_;  // set before the handler runs
  std::string refusal_;   // what a caller without the right token was told
  const std::chrono::steady_clock::time_point start_;
  std::atomic<bool> has_message_{false};
  // Code of a call that ends without sending a status.
  std::atomic<int> code_{grpc::CANCELLED};
};

}  // namespace

grpc::experimental::Interceptor* CallInterceptorFactory::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  return new CallInterceptor(metrics_.Find(info->method()), info->method(), &random_,
                             info->server_context(), &origins_, &connections_, &guard_);
}

}  // namespace nerf
