#include "server/rpc/services/services.h"

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/error_reason.h"
#include "common/rpc/blob_client.h"
#include "common/status_macros.h"
#include "google/bytestream/bytestream.grpc.pb.h"
#include "server/rpc/calls/lane_limit.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/stall_guard.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/blob_resource.h"

namespace nerf {
namespace {

using google::bytestream::ReadRequest;
using google::bytestream::ReadResponse;
using google::bytestream::WriteRequest;
using google::bytestream::WriteResponse;

// Limit of open uploads, and of open downloads, of clients. Each holds a message or a chunk in
// memory.
constexpr int kMaxOpenCalls = 256;

constexpr std::string_view kWriteMethod = "google.bytestream.ByteStream/Write";

// Knowing the digest is not enough to get a blob of another project: all of its bytes must be sent.
PresentBlob PresentFor(const ServiceContext& services, bool is_worker, const UploadName& name) {
  const bool may_know = is_worker || services.blob_owners.Owns(name.project, name.blob.sha256);
  return may_know ? PresentBlob::kCompletesUpload : PresentBlob::kIsHidden;
}

// Sends a blob in chunks with one write outstanding. Each step runs on the executor and starts the
// next one, so no two threads run here at once. No download of wrong bytes ends OK (BlobReader).
class ReadCall final : public grpc::ServerWriteReactor<ReadResponse> {
 public:
  ReadCall(const ServiceContext& services, CallContext* context, const Principal& principal,
           const ReadRequest& request, std::atomic<int>* n_open)
      : services_(services),
        context_(*context),
        is_worker_(IsWorker(principal)),
        request_(request),
        n_open_(*n_open),
        guard_(&services.executor, context, services.times.stall_limit) {
    ++n_open_;
  }
  ~ReadCall() override { --n_open_; }

  void Begin() {
    services_.executor.Post(Lane::kRead, [this] {
      absl::Status status = Open();
      if (!status.ok()) return Finish(ToGrpcStatus(status));
      Prepare();
    });
  }

  void OnWriteDone(bool ok) override {
    guard_.End();
    if (!ok) return Finish(grpc::Status(grpc::CANCELLED, "the client closed the download"));
    services_.metrics.BlobSent(response_.data().size());
    services_.executor.Post(Lane::kRead, [this] { SendNext(); });
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Open() {
    NERF_ASSIGN_OR_RETURN(const NamedBlob named, ParseBlobName(request_.resource_name()));
    if (request_.read_limit() < 0) {
      return InvalidFieldsError({{"read_limit", "must not be negative"}});
    }
    blob_ = named.blob;
    if (!is_worker_ && !services_.blob_owners.Owns(named.project_or_default(), blob_.sha256)) {
      // The store's message for a missing blob, so that callers cannot tell the two apart.
      return WithReason(absl::NotFoundError(BlobName(blob_) + " not found"),
                        reason::kResourceNotFound);
    }
    // Maps a negative offset to one beyond any blob, which the store refuses.
    constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
    const uint64_t offset =
        request_.read_offset() < 0 ? kAll : static_cast<uint64_t>(request_.read_offset());
    const uint64_t limit =
        request_.read_limit() == 0 ? kAll : static_cast<uint64_t>(request_.read_limit());
    NERF_ASSIGN_OR_RETURN(reader_, services_.blobs.OpenRead(blob_, offset, limit));
    return absl::OkStatus();
  }

  // Others have their turns between two steps of a long check.
  void Prepare() {
    const absl::StatusOr<bool> may_read = reader_->Prepare();
    if (!may_read.ok()) return Finish(ToGrpcStatus(may_read.status()));
    if (*may_read) return SendNext();
    if (context_.IsCancelled()) {
      return Finish(grpc::Status(grpc::CANCELLED, "the client closed the download"));
    }
    services_.executor.Post(Lane::kRead, [this] { Prepare(); });
  }

  void SendNext() {
    absl::StatusOr<std::string> chunk = reader_->Read(kBlobChunkBytes);
    if (!chunk.ok()) return Finish(ToGrpcStatus(chunk.status()));
    if (chunk->empty()) return Finish(grpc::Status::OK);
    response_.set_data(*std::move(chunk));
    guard_.Begin();
    if (reader_->at_end()) {
      services_.metrics.BlobSent(response_.data().size());
      return StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    }
    StartWrite(&response_);
  }

  const ServiceContext& services_;
  const grpc::CallbackServerContext& context_;
  const bool is_worker_;
  const ReadRequest request_;
  BlobRef blob_;
  std::unique_ptr<BlobReader> reader_;
  ReadResponse response_;
  std::atomic<int>& n_open_;
  StallGuard guard_;
};

// Receives an upload in chunks with one read outstanding. Steps run as in ReadCall.
class WriteCall final : public grpc::ServerReadReactor<WriteRequest> {
 public:
  WriteCall(const ServiceContext& services, CallContext* context, Principal principal,
            WriteResponse* response, std::atomic<int>* n_open)
      : services_(services),
        principal_(std::move(principal)),
        is_worker_(IsWorker(principal_)),
        response_(*response),
        n_open_(*n_open),
        guard_(&services.executor, context, services.times.stall_limit) {
    ++n_open_;
  }
  ~WriteCall() override { --n_open_; }

  void Begin() { ReadNext(); }

  void OnReadDone(bool ok) override {
    guard_.End();
    services_.executor.Post(Lane::kUpload, [this, ok] {
      if (!ok) return End();
      absl::StatusOr<bool> done = Take();
      if (!done.ok()) return Fail(done.status());
      if (*done) return Finish(grpc::Status::OK);
      ReadNext();
    });
  }
  void OnDone() override { delete this; }

 private:
  void ReadNext() {
    guard_.Begin();
    StartRead(&request_);
  }

  // Handles one message. Returns true once the blob is stored.
  absl::StatusOr<bool> Take() {
    if (request_.write_offset() < 0) {
      return InvalidFieldsError({{"write_offset", "must not be negative"}});
    }
    if (!name_.has_value()) {
      NERF_RETURN_IF_ERROR(services_.authorizer.CheckRequest(kWriteMethod, principal_, request_));
      NERF_ASSIGN_OR_RETURN(UploadName name, ParseUploadName(request_.resource_name()));
      name_ = std::move(name);
      resource_name_ = request_.resource_name();
      upload_id_ = StoredUploadId(*name_, is_worker_);
      if (!is_worker_) NERF_RETURN_IF_ERROR(CheckQuota());
    } else if (!request_.resource_name().empty() && request_.resource_name() != resource_name_) {
      return InvalidFieldsError(
          {{"resource_name", "must not change within an upload; it may be left out"}});
    }
    const PresentBlob present = PresentFor(services_, is_worker_, *name_);
    const Uploader uploader = is_worker_ ? Uploader::kWorker : Uploader::kClient;
    const absl::StatusOr<UploadStatus> appended = services_.blobs.Append(
        upload_id_, name_->blob, static_cast<uint64_t>(request_.write_offset()), request_.data(),
        uploader, present);
    if (!appended.ok()) {
      const auto begun = services_.blobs.GetUpload(upload_id_, name_->blob, present);
      if (!begun.ok() || begun->committed_size == 0) DropUpload();
      return appended.status();
    }
    const UploadStatus& status = *appended;
    services_.metrics.BlobReceived(request_.data().size());
    response_.set_committed_size(static_cast<int64_t>(status.committed_size));
    if (status.complete) {
      response_.set_committed_size(static_cast<int64_t>(name_->blob.byte_size));
      DropUpload();
      return true;
    }
    if (!request_.finish_write()) return false;
    const auto stored = services_.blobs.Finish(upload_id_, name_->blob, uploader, present);
    // Wrong bytes are discarded. Others may be sent on.
    if (absl::IsInvalidArgument(stored.status())) DropUpload();
    NERF_RETURN_IF_ERROR(stored.status());
    if (!is_worker_) NERF_RETURN_IF_ERROR(AddOwner());  // a worker's commit says for which project
    return true;
  }

  // Where it cannot be stored whose the blob is, the project sends all bytes again.
  absl::Status AddOwner() {
    if (services_.admin != nullptr) {
      NERF_RETURN_IF_ERROR(services_.admin->FinishUpload(name_->project, UploadKey(), name_->blob));
    }
    services_.blob_owners.Add(name_->project, name_->blob.sha256);
    return absl::OkStatus();
  }

  // A blob that the project has already counts once.
  absl::Status CheckQuota() {
    const BlobRef& blob = name_->blob;
    if (services_.admin == nullptr) return absl::OkStatus();
    if (services_.blob_owners.Owns(name_->project, blob.sha256) && services_.blobs.Has(blob)) {
      return absl::OkStatus();
    }
    return services_.admin->BeginUpload(name_->project, UploadKey(), blob.byte_size);
  }

  void DropUpload() {
    if (services_.admin == nullptr || is_worker_) return;
    services_.admin->DropUpload(name_->project, UploadKey());
  }

  std::string UploadKey() const { return UploadFileName(upload_id_, name_->blob); }

  // The writer stopped early: its bytes are kept, so that it can resume.
  void End() {
    if (!name_.has_value()) {
      return Fail(InvalidFieldsError({{"resource_name", "is missing: nothing was sent"}}));
    }
    Finish(grpc::Status::OK);
  }

  void Fail(const absl::Status& status) {
    const auto found = GetReason(status);
    services_.metrics.BlobUploadFailed(found.has_value() ? found->reason : "OTHER");
    Finish(ToGrpcStatus(status));
  }

  const ServiceContext& services_;
  const Principal principal_;
  const bool is_worker_;
  WriteResponse& response_;
  WriteRequest request_;
  std::optional<UploadName> name_;
  std::string resource_name_;
  std::string upload_id_;  // in the store
  std::atomic<int>& n_open_;
  StallGuard guard_;
};

// Workers are never refused: what they trained would be lost.
bool MayOpen(const Principal& principal, const std::atomic<int>& n_open) {
  return IsWorker(principal) || n_open < kMaxOpenCalls;
}

// Calls that end with an error at once.
class RefusedRead final : public grpc::ServerWriteReactor<ReadResponse> {
 public:
  explicit RefusedRead(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};
class RefusedWrite final : public grpc::ServerReadReactor<WriteRequest> {
 public:
  explicit RefusedWrite(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

// google.bytestream.ByteStream on top of the blob store.
class ByteStreamService final : public google::bytestream::ByteStream::CallbackService {
 public:
  explicit ByteStreamService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerWriteReactor<ReadResponse>* Read(CallContext* context,
                                               const ReadRequest* request) override {
    const auto principal =
        services_.authorizer.Check("google.bytestream.ByteStream/Read", *context, *request);
    if (!principal.ok()) return new RefusedRead(principal.status());
    if (!MayOpen(*principal, n_reads_)) return new RefusedRead(TooManyCalls());
    auto* call = new ReadCall(services_, context, *principal, *request, &n_reads_);
    call->Begin();
    return call;
  }

  grpc::ServerReadReactor<WriteRequest>* Write(CallContext* context,
                                               WriteResponse* response) override {
    absl::StatusOr<Principal> principal = services_.authorizer.Begin(kWriteMethod, *context);
    if (!principal.ok()) return new RefusedWrite(principal.status());
    if (!MayOpen(*principal, n_writes_)) return new RefusedWrite(TooManyCalls());
    auto* call = new WriteCall(services_, context, *std::move(principal), response, &n_writes_);
    call->Begin();
    return call;
  }

  UnaryReactor* QueryWriteStatus(CallContext* context,
                                 const google::bytestream::QueryWriteStatusRequest* request,
                                 google::bytestream::QueryWriteStatusResponse* response) override {
    return AnswerUnary(
        services_, "google.bytestream.ByteStream/QueryWriteStatus", context, *request,
        [=, this](const Principal& caller) {
          NERF_ASSIGN_OR_RETURN(const auto name, ParseUploadName(request->resource_name()));
          NERF_ASSIGN_OR_RETURN(
              const auto upload,
              services_.blobs.GetUpload(StoredUploadId(name, IsWorker(caller)), name.blob,
                                        PresentFor(services_, IsWorker(caller), name)));
          response->set_committed_size(static_cast<int64_t>(upload.committed_size));
          response->set_complete(upload.complete);
          return absl::OkStatus();
        });
  }

 private:
  const ServiceContext& services_;
  std::atomic<int> n_reads_{0}, n_writes_{0};  // open ones, of workers too
};

}  // namespace

std::unique_ptr<grpc::Service> MakeByteStreamService(const ServiceContext* services) {
  return std::make_unique<ByteStreamService>(services);
}

}  // namespace nerf
