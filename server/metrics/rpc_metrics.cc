#include "server/metrics/rpc_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>

#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

// By number, spelled as other gRPC implementations do in this label.
constexpr std::array kCodes = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};
constexpr size_t kUnknownCode = 2;
// OK, Unknown, Internal and DataLoss: panels and alerts read these. A counter that appears with its
// first event would hide that event from rate().
constexpr std::array<size_t, 4> kCodesFromStart = {0, kUnknownCode, 13, 15};

const char* TypeName(RpcType type) {
  switch (type) {
    case RpcType::kUnary:
      return "unary";
    case RpcType::kClientStream:
      return "client_stream";
    case RpcType::kServerStream:
      return "server_stream";
    case RpcType::kBidiStream:
      return "bidi_stream";
  }
  return "unknown";
}

const prometheus::Histogram::BucketBoundaries kSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                          0.5,   1,    2.5,   5,    10};

}  // namespace

struct RpcMetrics::Families {
  explicit Families(prometheus::Registry& registry)
      : started(prometheus::BuildCounter()
                    .Name("grpc_server_started_total")
                    .Help("RPCs started on the server.")
                    .Register(registry)),
        handled(prometheus::BuildCounter()
                    .Name("grpc_server_handled_total")
                    .Help("RPCs completed on the server, with any status.")
                    .Register(registry)),
        received(prometheus::BuildCounter()
                     .Name("grpc_server_msg_received_total")
                     .Help("Messages received on the server.")
                     .Register(registry)),
        sent(prometheus::BuildCounter()
                 .Name("grpc_server_msg_sent_total")
                 .Help("Messages sent by the server.")
                 .Register(registry)),
        seconds(prometheus::BuildHistogram()
                    .Name("grpc_server_handling_seconds")
                    .Help("Time from an RPC's start to its completion on the server.")
                    .Register(registry)) {}

  prometheus::Family<prometheus::Counter>& started;
  prometheus::Family<prometheus::Counter>& handled;
  prometheus::Family<prometheus::Counter>& received;
  prometheus::Family<prometheus::Counter>& sent;
  prometheus::Family<prometheus::Histogram>& seconds;
};

class RpcMetrics::Series final : public RpcMethodMetrics {
 public:
  Series(Families& families, RpcType type, std::string_view service, std::string_view method)
      : families_(families),
        labels_({{"grpc_type", TypeName(type)},
                 {"grpc_service", std::string(service)},
                 {"grpc_method", std::string(method)}}) {
    started_ = &families.started.Add(labels_);
    received_ = &families.received.Add(labels_);
    sent_ = &families.sent.Add(labels_);
    seconds_ = &families.seconds.Add(labels_, kSeconds);
    for (const size_t code : kCodesFromStart) CounterOf(code);
  }

  void Started() override { started_->Increment(); }
  void MessageReceived() override { received_->Increment(); }
  void MessageSent() override { sent_->Increment(); }
  void Handled(int code, double seconds) override {
    const size_t index = static_cast<size_t>(code);
    CounterOf(index < kCodes.size() ? index : kUnknownCode).Increment();
    seconds_->Observe(seconds);
  }

 private:
  // The counter of a code, made at its first use: most pairs of method and code never occur.
  prometheus::Counter& CounterOf(size_t code) {
    prometheus::Counter* counter = handled_[code].load();
    if (counter != nullptr) return *counter;
    prometheus::Labels labels = labels_;
    labels["grpc_code"] = kCodes[code];
    counter = &families_.handled.Add(labels);  // the same one for every thread
    handled_[code].store(counter);
    return *counter;
  }

  Families& families_;
  const prometheus::Labels labels_;
  prometheus::Counter* started_;
  prometheus::Counter* received_;
  prometheus::Counter* sent_;
  prometheus::Histogram* seconds_;
  std::array<std::atomic<prometheus::Counter*>, kCodes.size()> handled_ = {};
};

RpcMetrics::RpcMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)),
      other_(std::make_unique<Series>(*families_, RpcType::kUnary, "other", "other")) {}

RpcMetrics::~RpcMetrics() = default;

void RpcMetrics::AddMethod(RpcType type, std::string_view service, std::string_view method) {
  methods_[absl::StrCat("/", std::string(service), "/", std::string(method))] =
      std::make_unique<Series>(*families_, type, service, method);
}

RpcMethodMetrics* RpcMetrics::Find(std::string_view path) const {
  const auto found = methods_.find(path);
  return found == methods_.end() ? other_.get() : found->second.get();
}

}  // namespace nerf
