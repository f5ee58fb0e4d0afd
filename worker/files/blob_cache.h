#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_stamp.h"
#include "common/mutex.h"
#include "nerf/v1/common.pb.h"

namespace nerf {

// Transfers blobs. Calls block; thread-safe.
class BlobTransport {
 public:
  using ReadChunk = std::function<absl::Status(std::string_view bytes)>;
  virtual ~BlobTransport() = default;

  // Streams a blob into `sink`; the caller checks the digest.
  virtual absl::Status Read(const v1::BlobRef& blob, const ReadChunk& sink,
                            std::stop_token stop) = 0;
  // Uploads a file of digest and size `blob`. OK if the server already has it.
  virtual absl::Status Upload(const std::string& path, const v1::BlobRef& blob,
                              std::stop_token stop) = 0;
  // Has the server check its file of a blob whose bytes came with another digest. DataLoss
  // BLOB_DAMAGED if that is damaged; any other result says nothing about it.
  virtual absl::Status Check(const v1::BlobRef& blob, std::stop_token stop) = 0;
};

// Downloaded blobs in a folder, one file each, named by its digest. Above a limit the least
// recently used ones are removed. Files are read-only; users hard-link them, so a removal does not
// affect them. A file's digest is checked after its download, when a new process first uses it and
// when it is another file, or has another size or time, than when it was checked.
// Thread-safe; no lock is held while bytes move.
class BlobCache {
 public:
  // Takes over the files in `folder`, which exists, and removes unfinished downloads. `transport`
  // outlives this.
  BlobCache(std::string folder, uint64_t max_bytes, BlobTransport& transport);

  // The path of the blob's file, downloaded when needed. A pinned file stays until Unpin.
  // Errors: those of the transport; ResourceExhausted WORKER_EXHAUSTED if the disk is full;
  // DataLoss if the digest of the bytes differs; InvalidArgument for a malformed blob.
  absl::StatusOr<std::string> Fetch(const v1::BlobRef& blob, bool pin, std::stop_token stop);
  void Unpin(const std::string& sha256);

  uint64_t byte_size() const;

 private:
  struct Entry {
    uint64_t byte_size = 0;
    std::optional<FileStamp> verified;  // when its digest was checked
    int pins = 0;
    std::list<std::string>::iterator use;
  };
  std::string PathOf(const std::string& sha256) const;
  absl::Status Download(const v1::BlobRef& blob, std::stop_token stop);
  void Touch(const std::string& sha256, uint64_t byte_size, bool pin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Shrink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Const after construction.
  const std::string folder_;
  const uint64_t max_bytes_;
  BlobTransport& transport_;

  mutable Mutex mu_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::list<std::string> uses_ ABSL_GUARDED_BY(mu_);  // most recent first
  uint64_t byte_size_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nerf
