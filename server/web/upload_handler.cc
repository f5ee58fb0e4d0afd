#include "server/web/upload_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "common/error_reason.h"
#include "common/rpc/status_conversion.h"
#include "google/bytestream/bytestream.pb.h"

namespace nerf {
namespace {

constexpr char kTusVersion[] = "1.0.0";
constexpr size_t kMessageBytes = size_t{256} << 10;
// Long enough for a slow disk. The call ends earlier if the peer disconnects.
constexpr absl::Duration kQueryTimeout = absl::Seconds(30);
constexpr int kConflict = 409;
constexpr int kPreconditionFailed = 412;
constexpr int kTooLarge = 413;

std::optional<uint64_t> ParseOffset(std::string_view text) {
  uint64_t offset = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, offset);
  if (text.empty() || error != std::errc() || last != end) return std::nullopt;
  return offset;
}

class UploadHandler final : public HttpHandler {
 public:
  UploadHandler(const BlobPath& blob, HttpExchange* exchange, Upstream* upstream)
      : blob_(blob), exchange_(*exchange), upstream_(*upstream) {}

  void Start() override {
    if (absl::Status status = exchange_.Admit(); !status.ok()) return Refuse(status);
    const HttpRequestHead& head = exchange_.head();
    if (head.Header("tus-resumable") != kTusVersion) {
      return Refuse(kPreconditionFailed,
                    absl::FailedPreconditionError("Tus-Resumable must be 1.0.0"));
    }
    if (head.method == "PATCH") {
      if (head.Header("content-type") != "application/offset+octet-stream") {
        return Refuse(
            kUnsupportedMediaType,
            absl::InvalidArgumentError("Content-Type must be application/offset+octet-stream"));
      }
      offset_ = ParseOffset(head.Header("upload-offset"));
      if (!offset_.has_value()) {
        return Refuse(400, absl::InvalidArgumentError("Upload-Offset must be a whole number"));
      }
      const uint64_t length = exchange_.content_length().value_or(0);
      if (*offset_ > blob_.byte_size || length > blob_.byte_size - *offset_) {
        return Refuse(kTooLarge, absl::InvalidArgumentError(
                                     fmt::format("the upload ends at byte {}", blob_.byte_size)));
      }
    }
    Query();
  }

 private:
  void Refuse(int http_status, const absl::Status& status) {
    HttpResponse response = ErrorResponse(http_status, status);
    response.headers.emplace_back("Tus-Resumable", kTusVersion);
    exchange_.Respond(std::move(response));
  }
  void Refuse(const absl::Status& status) {
    call_.reset();
    Refuse(ErrorResponse(status).status, status);
  }

  void Query() {
    google::bytestream::QueryWriteStatusRequest request;
    request.set_resource_name(blob_.resource_name);
    UpstreamHandlers handlers;
    handlers.on_message = [this](std::string bytes) {
      google::bytestream::QueryWriteStatusResponse response;
      response.ParseFromString(bytes);
      committed_ =
          response.complete() ? blob_.byte_size : static_cast<uint64_t>(response.committed_size());
      is_complete_ = response.complete();
      call_->Read();
    };
    handlers.on_done = [this](const grpc::Status& status) {
      if (!status.ok()) return Refuse(FromGrpcStatus(status));
      call_.reset();
      Queried();
    };
    call_.emplace(&upstream_,
                  UpstreamRequest{"/google.bytestream.ByteStream/QueryWriteStatus",
                                  ForwardedMetadata(exchange_.head()), kQueryTimeout},
                  std::move(handlers));
    call_->Send(request.SerializeAsString(), /*is_last=*/true);
    call_->Read();
  }

  void Queried() {
    if (!offset_.has_value()) {
      HttpResponse response{.status = 200, .headers = OffsetHeaders()};
      response.headers.emplace_back("Upload-Length", fmt::format("{}", blob_.byte_size));
      response.headers.emplace_back("Cache-Control", "no-store");
      return exchange_.Respond(std::move(response));
    }
    // As in ByteStream.Write, an upload of a blob that is present succeeds at once.
    if (is_complete_) return exchange_.Respond({.status = 204, .headers = OffsetHeaders()});
    if (*offset_ != committed_) {
      return Refuse(kConflict,
                    absl::AbortedError(fmt::format(
                        "Upload-Offset is {}, but the server has {} bytes", *offset_, committed_)));
    }
    StartWrite();
  }

  HttpHeaders OffsetHeaders() const {
    return {{"Tus-Resumable", kTusVersion}, {"Upload-Offset", fmt::format("{}", committed_)}};
  }

  void StartWrite() {
    UpstreamHandlers handlers;
    handlers.on_sent = [this] { is_ended_ ? void() : ReadOn(); };
    handlers.on_message = [this](std::string bytes) {
      google::bytestream::WriteResponse response;
      response.ParseFromString(bytes);
      committed_ = static_cast<uint64_t>(response.committed_size());
      call_->Read();
    };
    handlers.on_done = [this](const grpc::Status& status) {
      if (!status.ok()) return Refuse(FromGrpcStatus(status));
      call_.reset();
      exchange_.Respond({.status = 204, .headers = OffsetHeaders()});
    };
    next_offset_ = *offset_;
    call_.emplace(
        &upstream_,
        UpstreamRequest{"/google.bytestream.ByteStream/Write", ForwardedMetadata(exchange_.head())},
        std::move(handlers));
    call_->Read();
    ReadOn();
  }

  // Reads the body until a message is full, then sends it.
  void ReadOn() {
    exchange_.ReadBody([this](std::string_view bytes, bool last) {
      if (bytes.size() > blob_.byte_size - next_offset_ - pending_.size()) {
        call_.reset();
        return Refuse(kTooLarge, absl::InvalidArgumentError(
                                     fmt::format("the upload ends at byte {}", blob_.byte_size)));
      }
      pending_.reserve(std::min<uint64_t>(kMessageBytes, blob_.byte_size - next_offset_));
      pending_ += bytes;
      if (!last && pending_.size() < kMessageBytes) return ReadOn();
      SendPending(last);
    });
  }

  void SendPending(bool last) {
    google::bytestream::WriteRequest request;
    if (next_offset_ == *offset_) request.set_resource_name(blob_.resource_name);
    request.set_write_offset(static_cast<int64_t>(next_offset_));
    next_offset_ += pending_.size();
    request.set_data(std::exchange(pending_, {}));
    request.set_finish_write(next_offset_ == blob_.byte_size);
    is_ended_ = last || request.finish_write();
    call_->Send(request.SerializeAsString(), is_ended_);
  }

  const BlobPath blob_;
  HttpExchange& exchange_;
  Upstream& upstream_;
  std::optional<uint64_t> offset_;  // of PATCH
  uint64_t committed_ = 0;          // as the service reported
  bool is_complete_ = false;
  uint64_t next_offset_ = 0;  // of the next message
  std::string pending_;       // its bytes so far
  bool is_ended_ = false;     // the last message was sent
  std::optional<UpstreamCall> call_;
};

}  // namespace

std::unique_ptr<HttpHandler> MakeUploadHandler(const BlobPath& blob, HttpExchange* exchange,
                                               Upstream* upstream) {
  return std::make_unique<UploadHandler>(blob, exchange, upstream);
}

HttpHeaders TusHeaders() { return {{"Tus-Resumable", kTusVersion}, {"Tus-Version", kTusVersion}}; }

}  // namespace nerf
