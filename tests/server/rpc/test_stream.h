#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>

#include "absl/status/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"

namespace nerf {

// The client's end of a stream of responses. Destroying it cancels the call.
template <typename Response>
class TestStream {
 public:
  // open(&context) starts the call and returns its reader.
  template <typename Open>
  explicit TestStream(Open open) {
    PrepareCall(absl::Seconds(60), "", &context_);
    reader_ = open(&context_);
  }
  ~TestStream() {
    context_.TryCancel();
    if (!finished_) reader_->Finish();
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  // Waits for the next message. False at the stream's end.
  bool Read(Response* message) { return reader_->Read(message); }
  // The stream's status. Call once, after its end.
  absl::Status Finish() {
    finished_ = true;
    return FromGrpcStatus(reader_->Finish());
  }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Response>> reader_;
  bool finished_ = false;
};

}  // namespace nerf
