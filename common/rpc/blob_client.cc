#include "common/rpc/blob_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/ids.h"
#include "common/logging.h"
#include "common/messages/blob_ref.h"
#include "common/rpc/channel.h"
#include "common/rpc/signed_transfer.h"
#include "common/rpc/status_conversion.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "google/bytestream/bytestream.grpc.pb.h"
#include "nerf/v1/blob_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr absl::Duration kUnaryTimeout = absl::Seconds(30);
constexpr int kMaxBlobsPerCall = 10'000;  // the server's limit on FindMissingBlobs
constexpr uint64_t kProgressEveryBytes = 1 << 20;
constexpr double kMinSignedBytes = 1 << 20;  // for fewer another call costs more

// Long enough for slow lines; a stuck call still ends.
absl::Duration TransferTimeout(double byte_size) {
  return absl::Seconds(60) + absl::Seconds(byte_size / (16 << 10));
}

// Cancels a call when stop is requested; for the scope of the call.
class CallCanceller {
 public:
  CallCanceller(grpc::ClientContext& context, const std::stop_token& stop)
      : callback_(stop, [&context] { context.TryCancel(); }) {}

 private:
  std::stop_callback<std::function<void()>> callback_;
};

std::string UploadId(const std::string& writer_id, const std::string& sha256) {
  std::string hex = Sha256Hex(fmt::format("{}/{}", writer_id, sha256));
  hex[12] = '4';  // version and variant of a UUID4
  hex[16] = 'a';
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20, 12));
}

bool MayTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

void LogPastServer(std::string_view what, const absl::Status& status) {
  LogInfo("a blob goes through the server",
          {{"instead_of", std::string(what)}, {"error", std::string(status.message())}});
}

BlobClientOptions WithWriterId(BlobClientOptions options) {
  if (options.writer_id.empty()) {
    SystemRandom random;
    options.writer_id = NewUuid4(random);
  }
  return options;
}

}  // namespace

BlobClient::BlobClient(std::shared_ptr<grpc::Channel> channel, BlobClientOptions options)
    : channel_(std::move(channel)), options_(WithWriterId(std::move(options))) {}

void BlobClient::Prepare(absl::Duration timeout, grpc::ClientContext* context) const {
  if (options_.time_left) timeout = std::min(timeout, options_.time_left());
  PrepareCall(timeout, options_.token, context);
}

absl::StatusOr<std::vector<v1::BlobRef>> BlobClient::FindMissing(
    const std::vector<v1::BlobRef>& blobs, std::stop_token stop) {
  const auto stub = v1::BlobService::NewStub(channel_);
  std::vector<v1::BlobRef> missing;
  for (size_t begin = 0; begin < blobs.size(); begin += kMaxBlobsPerCall) {
    v1::FindMissingBlobsRequest request;
    if (!options_.project.empty()) request.set_parent("projects/" + options_.project);
    const size_t end = std::min(blobs.size(), begin + kMaxBlobsPerCall);
    for (size_t i = begin; i < end; ++i) *request.add_blobs() = blobs[i];
    grpc::ClientContext context;
    Prepare(kUnaryTimeout, &context);
    const CallCanceller canceller(context, stop);
    v1::FindMissingBlobsResponse response;
    const grpc::Status status = stub->FindMissingBlobs(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    missing.insert(missing.end(), response.missing().begin(), response.missing().end());
  }
  return missing;
}

absl::Status BlobClient::UploadBytes(std::string_view bytes, const v1::BlobRef& blob,
                                     std::stop_token stop) {
  return Upload(
      [bytes](uint64_t offset, size_t max_bytes) -> absl::StatusOr<std::string> {
        return std::string(bytes.substr(std::min<uint64_t>(offset, bytes.size()), max_bytes));
      },
      blob, std::move(stop), {});
}

absl::Status BlobClient::UploadFile(const std::string& path, const v1::BlobRef& blob,
                                    std::stop_token stop,
                                    const std::function<void(uint64_t)>& on_progress) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoToStatus(errno, "open " + path);
  return Upload(
      [&](uint64_t offset, size_t max_bytes) -> absl::StatusOr<std::string> {
        std::string chunk(max_bytes, '\0');
        size_t filled = 0;
        while (filled < max_bytes) {
          const ssize_t n = pread(fd.get(), chunk.data() + filled, max_bytes - filled,
                                  static_cast<off_t>(offset + filled));
          if (n < 0 && errno == EINTR) continue;
          if (n < 0) return ErrnoToStatus(errno, "read " + path);
          if (n == 0) break;
          filled += static_cast<size_t>(n);
        }
        chunk.resize(filled);
        return chunk;
      },
      blob, std::move(stop), on_progress);
}

absl::Status BlobClient::Upload(const Source& source, const v1::BlobRef& blob, std::stop_token stop,
                                const std::function<void(uint64_t)>& on_progress) {
  NERF_RETURN_IF_ERROR(CheckBlobRef("blob", blob));
  const std::string resource =
      fmt::format("{}uploads/{}/{}", Prefix(), UploadId(options_.writer_id, blob.sha256()),
                  BlobResourceName(blob));
  return Persist(stop, [&] { return UploadOnce(source, resource, blob, stop, on_progress); });
}

absl::Status BlobClient::Persist(const std::stop_token& stop,
                                 const std::function<absl::Status()>& transfer) const {
  absl::Duration pause = options_.first_retry_pause;
  for (int attempt = 1;; ++attempt) {
    if (stop.stop_requested()) return absl::CancelledError("transfer stopped");
    const absl::Status status = transfer();
    if (status.ok()) return status;
    if (stop.stop_requested()) return absl::CancelledError("transfer stopped");
    if (!MayTryAgain(status) || attempt >= options_.max_attempts) return status;
    if (options_.time_left && options_.time_left() <= pause) return status;
    SleepUnlessStopped(pause, stop);
    pause *= 2;
  }
}

v1::SignBlobUrlResponse BlobClient::SignUrl(const v1::BlobRef& blob, bool write,
                                            const std::stop_token& stop) {
  v1::SignBlobUrlResponse response;
  if (blob.size_bytes() < kMinSignedBytes || !MayReachSigned()) return response;
  v1::SignBlobUrlRequest request;
  *request.mutable_blob() = blob;
  if (!options_.project.empty()) request.set_parent("projects/" + options_.project);
  request.set_write(write);
  grpc::ClientContext context;
  Prepare(kUnaryTimeout, &context);
  const CallCanceller canceller(context, stop);
  const grpc::Status status =
      v1::BlobService::NewStub(channel_)->SignBlobUrl(&context, request, &response);
  if (!status.ok()) response.Clear();
  return response;
}

bool BlobClient::UploadSigned(const Source& source, const v1::BlobRef& blob,
                              const std::stop_token& stop) {
  const v1::SignBlobUrlResponse signed_url = SignUrl(blob, /*write=*/true, stop);
  if (signed_url.url().empty()) return false;
  absl::Status status =
      WriteSigned(signed_url.url(), {signed_url.headers().begin(), signed_url.headers().end()},
                  static_cast<uint64_t>(blob.size_bytes()), source, stop);
  if (status.ok()) {
    v1::AdoptBlobRequest request;
    *request.mutable_blob() = blob;
    grpc::ClientContext context;
    Prepare(kUnaryTimeout, &context);
    const CallCanceller canceller(context, stop);
    v1::AdoptBlobResponse response;
    status =
        FromGrpcStatus(v1::BlobService::NewStub(channel_)->AdoptBlob(&context, request, &response));
  }
  if (!status.ok()) LogPastServer("write", status);
  return status.ok();
}

absl::Status BlobClient::UploadOnce(const Source& source, const std::string& resource,
                                    const v1::BlobRef& blob, std::stop_token stop,
                                    const std::function<void(uint64_t)>& on_progress) {
  const auto stub = google::bytestream::ByteStream::NewStub(channel_);
  const auto byte_size = static_cast<uint64_t>(blob.size_bytes());
  uint64_t offset = 0;
  {
    grpc::ClientContext context;
    Prepare(kUnaryTimeout, &context);
    const CallCanceller canceller(context, stop);
    google::bytestream::QueryWriteStatusRequest request;
    request.set_resource_name(resource);
    google::bytestream::QueryWriteStatusResponse response;
    const absl::Status status =
        FromGrpcStatus(stub->QueryWriteStatus(&context, request, &response));
    if (status.ok()) {
      if (response.complete()) return absl::OkStatus();
      if (response.committed_size() < 0 ||
          static_cast<uint64_t>(response.committed_size()) > byte_size) {
        return absl::InternalError(
            fmt::format("server says that {} of {} bytes of {} are committed",
                        response.committed_size(), byte_size, resource));
      }
      offset = static_cast<uint64_t>(response.committed_size());
    } else if (!absl::IsNotFound(status)) {
      return status;
    }
  }
  if (offset == 0 && UploadSigned(source, blob, stop)) {
    if (on_progress) on_progress(byte_size);
    return absl::OkStatus();
  }

  grpc::ClientContext context;
  Prepare(TransferTimeout(blob.size_bytes()), &context);
  const CallCanceller canceller(context, stop);
  google::bytestream::WriteResponse response;
  const auto writer = stub->Write(&context, &response);
  google::bytestream::WriteRequest request;
  request.set_resource_name(resource);
  absl::Status source_status;
  uint64_t next_progress = offset;
  while (true) {
    const size_t want =
        static_cast<size_t>(std::min<uint64_t>(kBlobChunkBytes, byte_size - offset));
    absl::StatusOr<std::string> chunk = source(offset, want);
    if (chunk.ok() && chunk->size() < want) {
      chunk = absl::InvalidArgumentError(
          fmt::format("content ends at byte {} of {}", offset + chunk->size(), byte_size));
    }
    if (!chunk.ok()) {
      source_status = chunk.status();
      context.TryCancel();
      break;
    }
    request.set_write_offset(static_cast<int64_t>(offset));
    request.set_data(*std::move(chunk));
    offset += want;
    request.set_finish_write(offset == byte_size);
    // A failed write means that the server answered early, for example because it has the blob.
    if (!writer->Write(request)) break;
    if (offset == byte_size) break;
    request.clear_resource_name();
    if (on_progress && offset >= next_progress) {
      on_progress(offset);
      next_progress = offset + kProgressEveryBytes;
    }
  }
  writer->WritesDone();
  const absl::Status status = FromGrpcStatus(writer->Finish());
  NERF_RETURN_IF_ERROR(source_status);
  NERF_RETURN_IF_ERROR(status);
  if (static_cast<uint64_t>(response.committed_size()) != byte_size) {
    return absl::UnavailableError(
        fmt::format("upload was cut at byte {} of {}", response.committed_size(), byte_size));
  }
  if (on_progress) on_progress(byte_size);
  return absl::OkStatus();
}

absl::Status BlobClient::Read(const v1::BlobRef& blob, const ReadChunk& sink,
                              std::stop_token stop) {
  NERF_RETURN_IF_ERROR(CheckBlobRef("blob", blob));
  const auto stub = google::bytestream::ByteStream::NewStub(channel_);
  const uint64_t byte_size = static_cast<uint64_t>(blob.size_bytes());
  uint64_t received = 0;
  absl::Status sink_status;
  const auto take = [&](std::string_view bytes) {
    received += bytes.size();
    return received > byte_size ? absl::DataLossError(fmt::format("{} is longer than its name says",
                                                                  BlobResourceName(blob)))
                                : sink(bytes);
  };
  if (const std::string url = SignUrl(blob, /*write=*/false, stop).url(); !url.empty()) {
    const absl::Status past_server = ReadSigned(
        url,
        [&](std::string_view bytes) {
          sink_status = take(bytes);
          return sink_status;
        },
        stop);
    if (!past_server.ok() && sink_status.ok()) LogPastServer("read", past_server);
    if (!sink_status.ok() || received == byte_size) return sink_status;
  }
  const absl::Status status = Persist(stop, [&] {
    grpc::ClientContext context;
    Prepare(TransferTimeout(blob.size_bytes()), &context);
    const CallCanceller canceller(context, stop);
    google::bytestream::ReadRequest request;
    request.set_resource_name(Prefix() + BlobResourceName(blob));
    request.set_read_offset(static_cast<int64_t>(received));
    const auto reader = stub->Read(&context, request);
    google::bytestream::ReadResponse response;
    while (sink_status.ok() && reader->Read(&response)) {
      sink_status = take(response.data());
    }
    if (!sink_status.ok()) context.TryCancel();
    const absl::Status ended = FromGrpcStatus(reader->Finish());
    // An error of the sink is not the transfer's: a retry would not help.
    return sink_status.ok() ? ended : absl::OkStatus();
  });
  NERF_RETURN_IF_ERROR(sink_status);
  NERF_RETURN_IF_ERROR(status);
  if (received != byte_size) {
    return absl::DataLossError(
        fmt::format("{}: the server sent {} bytes", BlobResourceName(blob), received));
  }
  return absl::OkStatus();
}

absl::Status BlobClient::Check(const v1::BlobRef& blob, std::stop_token stop) {
  const auto stub = v1::BlobService::NewStub(channel_);
  v1::CheckBlobRequest request;
  *request.mutable_blob() = blob;
  if (!options_.project.empty()) request.set_parent("projects/" + options_.project);
  grpc::ClientContext context;
  Prepare(TransferTimeout(blob.size_bytes()), &context);
  const CallCanceller canceller(context, stop);
  v1::CheckBlobResponse response;
  return FromGrpcStatus(stub->CheckBlob(&context, request, &response));
}

absl::Status BlobClient::DownloadToFile(const v1::BlobRef& blob, const std::string& path,
                                        std::stop_token stop) {
  NERF_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  Sha256 sha256;
  NERF_RETURN_IF_ERROR(Read(
      blob,
      [&](std::string_view bytes) {
        sha256.Update(bytes);
        return file.Append(bytes);
      },
      stop));
  if (sha256.HexDigest() != blob.sha256()) {
    absl::Status checked = Check(blob, std::move(stop));
    if (absl::IsDataLoss(checked)) return checked;
    return absl::DataLossError(
        fmt::format("{}: the received bytes have another digest", BlobResourceName(blob)));
  }
  return file.Commit();
}

std::string BlobClient::Prefix() const {
  return options_.project.empty() ? "" : fmt::format("projects/{}/", options_.project);
}

}  // namespace nerf
