#include "server/web/upstream_call.h"

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>

#include "absl/time/clock.h"

namespace nerf {
namespace {

grpc::ByteBuffer ToByteBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  return bytes;
}

}  // namespace

// A tag of the completion queue. Keeps the call alive while gRPC runs the operation.
struct UpstreamCall::Operation {
  void (State::*finished)(bool ok) = nullptr;
  std::shared_ptr<State> owner = nullptr;
};

class UpstreamCall::State : public std::enable_shared_from_this<State> {
 public:
  State(Upstream* upstream, UpstreamHandlers handlers)
      : upstream_(*upstream), handlers_(std::move(handlers)) {
    ++upstream_.n_open_calls_;
  }
  ~State() { --upstream_.n_open_calls_; }

  void Start(const UpstreamRequest& request) {
    for (const auto& [key, value] : request.metadata) context_.AddMetadata(key, value);
    if (request.timeout < absl::Hours(24 * 365)) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + request.timeout));
    }
    stream_ = upstream_.stub_.PrepareCall(&context_, request.method, &upstream_.queue_);
    stream_->StartCall(Begin(&start_));
  }

  void Send(const std::string& message, bool is_last) {
    outgoing_ = ToByteBuffer(message);
    is_last_ = is_last;
    wants_write_ = true;
    Proceed();
  }

  void Read() {
    wants_read_ = true;
    Proceed();
  }

  // After this no handler is called. They are not destroyed, because one of them may be running.
  void Detach() {
    is_detached_ = true;
    context_.TryCancel();
    Finish();
  }

 private:
  void* Begin(Operation* operation) {
    operation->owner = shared_from_this();
    return operation;
  }

  // Begins the operations that were requested before the call had started.
  void Proceed() {
    if (!has_started_ || is_finishing_) return;
    if (std::exchange(wants_write_, false)) {
      grpc::WriteOptions options;
      if (is_last_) options.set_last_message();
      stream_->Write(outgoing_, options, Begin(&write_));
    }
    if (std::exchange(wants_read_, false)) stream_->Read(&incoming_, Begin(&read_));
  }

  void Finish() {
    if (!has_started_ || std::exchange(is_finishing_, true)) return;
    stream_->Finish(&status_, Begin(&finish_));
  }

  // A failed start is reported by the next read or by Finish.
  void Started(bool) {
    has_started_ = true;
    is_detached_ ? Finish() : Proceed();
  }

  void Written(bool ok) {
    if (ok && !is_detached_ && handlers_.on_sent) handlers_.on_sent();
  }

  void ReadEnded(bool ok) {
    if (is_detached_) return;
    ok ? handlers_.on_message(ToString(incoming_)) : Finish();
  }

  void Finished(bool) {
    if (!is_detached_) handlers_.on_done(status_);
  }

  Upstream& upstream_;
  const UpstreamHandlers handlers_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer outgoing_, incoming_;
  grpc::Status status_;
  bool is_last_ = false;
  bool wants_write_ = false, wants_read_ = false;
  bool has_started_ = false, is_finishing_ = false, is_detached_ = false;
  Operation start_{&State::Started}, write_{&State::Written}, read_{&State::ReadEnded},
      finish_{&State::Finished};
};

Upstream::Upstream(std::shared_ptr<grpc::Channel> channel, Post post)
    : stub_(std::move(channel)), post_(std::move(post)), thread_([this] { RunQueue(); }) {}

Upstream::~Upstream() {
  queue_.Shutdown();
  thread_.join();
}

void Upstream::RunQueue() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    post_([operation = static_cast<UpstreamCall::Operation*>(tag), ok] {
      const auto owner = std::move(operation->owner);
      ((*owner).*(operation->finished))(ok);
    });
  }
}

UpstreamCall::UpstreamCall(Upstream* upstream, const UpstreamRequest& request,
                           UpstreamHandlers handlers)
    : state_(std::make_shared<State>(upstream, std::move(handlers))) {
  state_->Start(request);
}

UpstreamCall::~UpstreamCall() { state_->Detach(); }

void UpstreamCall::Send(const std::string& message, bool is_last) {
  state_->Send(message, is_last);
}
void UpstreamCall::Read() { state_->Read(); }

}  // namespace nerf
