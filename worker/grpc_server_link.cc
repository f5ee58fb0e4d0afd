#include "worker/grpc_server_link.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <utility>

#include "common/rpc/blob_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/metadata.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "nerf/v1/worker_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr absl::Duration kCommitTimeout = absl::Seconds(30);

absl::StatusOr<std::string> Token(const std::string& token_file) {
  if (token_file.empty()) return std::string();
  return ReadTokenFile(token_file);
}

}  // namespace

// Whether a stream has ended. Outlives the stream, whose last callback sets it.
class GrpcServerLink::StreamEnd {
 public:
  void Set() {
    MutexLock lock(mu_);
    done_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mu_);
    while (!done_) changed_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

// One stream. Keeps itself alive from Start to OnDone. Writes come from outside of gRPC's
// callbacks, so the stream has a hold on the call, removed when the reading side has ended.
class GrpcServerLink::StreamReactor final
    : public grpc::ClientBidiReactor<v1::SynchronizeRequest, v1::SynchronizeResponse>,
      public std::enable_shared_from_this<StreamReactor> {
 public:
  StreamReactor(std::shared_ptr<grpc::Channel> channel, Listener listener)
      : stub_(v1::WorkerService::NewStub(std::move(channel))), listener_(std::move(listener)) {}

  void Start(const std::string& token, const std::string& worker_key) {
    self_ = shared_from_this();
    // No deadline: a stream lives as long as the worker. Keepalive detects a dead connection.
    PrepareCall(absl::InfiniteDuration(), token, &context_);
    if (!worker_key.empty()) context_.AddMetadata(kWorkerKeyMetadata, worker_key);
    stub_->async()->Synchronize(&context_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  // The stream could not be opened at all.
  void Fail(CallResult result) {
    listener_.on_closed(std::move(result));
    end_->Set();
  }

  void Write(v1::SynchronizeRequest message) {
    {
      MutexLock lock(mu_);
      if (reading_ended_) return;  // on_closed follows
      // Keeps the call alive until StartWrite has returned.
      AddHold();
    }
    outgoing_ = std::move(message);
    StartWrite(&outgoing_);
    RemoveHold();
  }

  void Cancel() { context_.TryCancel(); }

  // Returns when no callback of the stream runs any more.
  void WaitUntilDone() { end_->Wait(); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        MutexLock lock(mu_);
        reading_ended_ = true;
      }
      RemoveHold();
      return;
    }
    listener_.on_message(std::move(incoming_));
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      listener_.on_written();
    } else {
      context_.TryCancel();
    }
  }

  void OnDone(const grpc::Status& status) override {
    CallResult result = ToCallResult(FromGrpcStatus(status));
    if (result.ok()) result = {absl::StatusCode::kUnavailable, "the server ended the stream", ""};
    listener_.on_closed(std::move(result));
    const std::shared_ptr<StreamEnd> end = end_;
    // Drop this reference before announcing the end: the waiting thread then destroys stream and
    // channel. If it were the last one, the channel would be destroyed here, on a thread of gRPC,
    // which aborts (gRPC 1.51).
    std::exchange(self_, nullptr).reset();
    end->Set();
  }

 private:
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const Listener listener_;
  grpc::ClientContext context_;
  v1::SynchronizeResponse incoming_;
  v1::SynchronizeRequest outgoing_;  // one write at a time
  std::shared_ptr<StreamReactor> self_;
  const std::shared_ptr<StreamEnd> end_ = std::make_shared<StreamEnd>();

  Mutex mu_;
  bool reading_ended_ ABSL_GUARDED_BY(mu_) = false;
};

GrpcServerLink::GrpcServerLink(std::shared_ptr<grpc::Channel> channel, std::string token_file,
                               std::string worker_key)
    : channel_(std::move(channel)),
      token_file_(std::move(token_file)),
      worker_key_(std::move(worker_key)) {}

GrpcServerLink::~GrpcServerLink() {
  if (stream_ == nullptr) return;
  stream_->Cancel();
  stream_->WaitUntilDone();
}

void GrpcServerLink::Open(Listener listener) {
  stream_ = std::make_shared<StreamReactor>(channel_, std::move(listener));
  const absl::StatusOr<std::string> token = Token(token_file_);
  if (token.ok()) {
    stream_->Start(*token, worker_key_);
  } else {
    stream_->Fail(ToCallResult(token.status()));
  }
}

void GrpcServerLink::Write(v1::SynchronizeRequest message) {
  if (stream_ != nullptr) stream_->Write(std::move(message));
}

void GrpcServerLink::Close() {
  if (stream_ != nullptr) stream_->Cancel();
}

template <typename Method, typename Request, typename Response>
CallResult GrpcServerLink::Call(Method method, const Request& request, std::stop_token stop,
                                Response* response) {
  const absl::StatusOr<std::string> token = Token(token_file_);
  if (!token.ok()) return ToCallResult(token.status());
  const auto stub = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  PrepareCall(kCommitTimeout, *token, &context);
  if (!worker_key_.empty()) context.AddMetadata(kWorkerKeyMetadata, worker_key_);
  const std::stop_callback canceller(stop, [&context] { context.TryCancel(); });
  return ToCallResult(FromGrpcStatus((stub.get()->*method)(&context, request, response)));
}

CallResult GrpcServerLink::Commit(const v1::CommitCheckpointRequest& request,
                                  std::stop_token stop) {
  v1::CommitCheckpointResponse response;
  return Call(&v1::WorkerService::Stub::CommitCheckpoint, request, stop, &response);
}

CallResult GrpcServerLink::CommitFrames(const v1::CommitFramesRequest& request,
                                        std::stop_token stop) {
  v1::CommitFramesResponse response;
  return Call(&v1::WorkerService::Stub::CommitFrames, request, stop, &response);
}

CallResult GrpcServerLink::CommitPoses(const v1::CommitPosesRequest& request,
                                       std::stop_token stop) {
  v1::CommitPosesResponse response;
  return Call(&v1::WorkerService::Stub::CommitPoses, request, stop, &response);
}

GrpcBlobTransport::GrpcBlobTransport(std::shared_ptr<grpc::Channel> channel, std::string token_file,
                                     std::string writer_id)
    : channel_(std::move(channel)),
      token_file_(std::move(token_file)),
      writer_id_(std::move(writer_id)) {}

absl::StatusOr<BlobClient> GrpcBlobTransport::Client() const {
  NERF_ASSIGN_OR_RETURN(std::string token, Token(token_file_));
  return BlobClient(channel_, {.token = std::move(token), .writer_id = writer_id_});
}

absl::Status GrpcBlobTransport::Read(const v1::BlobRef& blob, const ReadChunk& sink,
                                     std::stop_token stop) {
  absl::StatusOr<BlobClient> client = Client();
  return client.ok() ? client->Read(blob, sink, std::move(stop)) : client.status();
}

absl::Status GrpcBlobTransport::Upload(const std::string& path, const v1::BlobRef& blob,
                                       std::stop_token stop) {
  absl::StatusOr<BlobClient> client = Client();
  return client.ok() ? client->UploadFile(path, blob, std::move(stop)) : client.status();
}

absl::Status GrpcBlobTransport::Check(const v1::BlobRef& blob, std::stop_token stop) {
  absl::StatusOr<BlobClient> client = Client();
  return client.ok() ? client->Check(blob, std::move(stop)) : client.status();
}

}  // namespace nerf
