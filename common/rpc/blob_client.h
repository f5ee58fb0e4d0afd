#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nerf/v1/blob_service.pb.h"
#include "nerf/v1/common.pb.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace nerf {

// Bytes of one WriteRequest and of one ReadResponse.
inline constexpr size_t kBlobChunkBytes = size_t{64} << 10;

struct BlobClientOptions {
  std::string token = {};    // sent as Bearer token unless empty
  std::string project = {};  // whose blobs; empty: the default project's
  // Names the writer. Uploads of the same content by the same writer share an upload id, so that
  // another process can resume an upload. Empty: random for each client.
  std::string writer_id = {};
  // Tries of a transfer, the first included. Each resumes where the one before was cut, after a
  // pause.
  int max_attempts = 6;
  absl::Duration first_retry_pause = absl::Milliseconds(500);  // doubles: 15 s in all
  // Most time that a call which begins now may take. Unset: enough for its bytes on a slow line.
  std::function<absl::Duration()> time_left = {};
};

// Moves content-addressed blobs between files and a server, or past it where it has signed URLs for
// them (SignBlobUrl): what these fail to bring goes through the server. Every call blocks.
// Thread-safe.
class BlobClient {
 public:
  using ReadChunk = std::function<absl::Status(std::string_view bytes)>;

  BlobClient(std::shared_ptr<grpc::Channel> channel, BlobClientOptions options);

  // Those of `blobs` that the server does not hold, in any number. Errors: those of the server;
  // Cancelled.
  absl::StatusOr<std::vector<v1::BlobRef>> FindMissing(const std::vector<v1::BlobRef>& blobs,
                                                       std::stop_token stop = {});

  // Uploads content unless it is present. `blob` must be its digest and size. An upload that was
  // cut resumes at the committed size. `on_progress` is called now and then with the committed
  // bytes. Errors: those of the server; Cancelled when `stop` was requested; InvalidArgument if a
  // file does not match `blob`.
  absl::Status UploadBytes(std::string_view bytes, const v1::BlobRef& blob,
                           std::stop_token stop = {});
  absl::Status UploadFile(const std::string& path, const v1::BlobRef& blob,
                          std::stop_token stop = {},
                          const std::function<void(uint64_t)>& on_progress = {});

  // Streams a blob into `sink` in order. Does not check the digest. An error of the sink ends the
  // download and is returned. Errors: those of the server; DataLoss when the size is not blob's;
  // Cancelled.
  absl::Status Read(const v1::BlobRef& blob, const ReadChunk& sink, std::stop_token stop = {});

  // Has the server read a blob again, after its bytes came with a wrong digest. OK if the server's
  // file is right; DataLoss BLOB_DAMAGED if not. Other errors: those of the server.
  absl::Status Check(const v1::BlobRef& blob, std::stop_token stop = {});

  // Downloads to `path`, which appears only whole, durable and with the right digest. Errors: as
  // Read; DataLoss when the digest is wrong, which the server is told (Check).
  absl::Status DownloadToFile(const v1::BlobRef& blob, const std::string& path,
                              std::stop_token stop = {});

 private:
  using Source = std::function<absl::StatusOr<std::string>(uint64_t offset, size_t max_bytes)>;
  absl::Status Upload(const Source& source, const v1::BlobRef& blob, std::stop_token stop,
                      const std::function<void(uint64_t)>& on_progress);
  absl::Status UploadOnce(const Source& source, const std::string& resource,
                          const v1::BlobRef& blob, std::stop_token stop,
                          const std::function<void(uint64_t)>& on_progress);
  // The server's answer; without a URL if it gives none, or knows no such call.
  v1::SignBlobUrlResponse SignUrl(const v1::BlobRef& blob, bool write, const std::stop_token& stop);
  // Whether the server has the blob now.
  bool UploadSigned(const Source& source, const v1::BlobRef& blob, const std::stop_token& stop);
  // Retries a transfer that is cut or cannot reach the server. Errors: those of the transfer;
  // Cancelled.
  absl::Status Persist(const std::stop_token& stop,
                       const std::function<absl::Status()>& transfer) const;
  // "projects/{project}/" of names; empty for the default project.
  std::string Prefix() const;
  // Sets a call's deadline, at most `timeout` from now, and the token.
  void Prepare(absl::Duration timeout, grpc::ClientContext* context) const;

  // Const after construction.
  const std::shared_ptr<grpc::Channel> channel_;
  const BlobClientOptions options_;
};

}  // namespace nerf
