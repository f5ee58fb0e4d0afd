#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_stamp.h"
#include "common/files/sha256.h"
#include "common/mutex.h"
#include "server/queue/resources/blob_ref.h"

namespace nerf {

// The stored bytes of one blob, opened to read.
class BlobSource {
 public:
  virtual ~BlobSource() = default;
  // Bytes from `offset`; fewer than `n_bytes` only where there are no more or the disk cannot read
  // them, which is damage. Unavailable where the store cannot be reached.
  virtual absl::StatusOr<std::string> ReadAt(uint64_t offset, uint64_t n_bytes) = 0;
  // Tells them from others that were stored under the same name.
  virtual FileStamp stamp() const = 0;
  // What is read next comes from the disk, not from what memory remembers of it.
  virtual void ForgetCached() {}
  // Moves the damaged blob aside, unless another one has taken its place. It counts as missing from
  // then on, also where it cannot be moved.
  virtual void MoveAside() = 0;
};

// Which blobs were found right in this process, by their stamps. Thread-safe.
class VerifiedBlobs {
 public:
  bool Has(const std::string& sha256, const FileStamp& stamp) const;
  void Note(const std::string& sha256, const FileStamp& stamp);

 private:
  mutable Mutex mu_;
  std::map<std::string, FileStamp> stamps_ ABSL_GUARDED_BY(mu_);
};

// Reads a range of a blob, and never all of it without its digest. Of a whole blob the digest is
// taken on the way, and the last piece comes only if it is right. A part of one is read after the
// whole was checked, once for each stamp of its file. A blob that turns out to be damaged is moved
// aside. Made by BlobStore::OpenRead; the store outlives it. Not thread-safe.
class BlobReader {
 public:
  // The bytes from `begin` up to `end`. `verified` outlives it.
  BlobReader(std::unique_ptr<BlobSource> source, VerifiedBlobs* verified, const BlobRef& blob,
             uint64_t begin, uint64_t end);

  void ForgetCached() { source_->ForgetCached(); }
  // Checks some of a blob of which a part is wanted. True once Read may be called. DataLoss
  // BLOB_DAMAGED; Unavailable.
  absl::StatusOr<bool> Prepare();
  // The next bytes of the range, at most `max_bytes`; none at its end. Errors as of Prepare.
  absl::StatusOr<std::string> Read(uint64_t max_bytes);
  bool at_end() const { return next_ == end_; }

 private:
  // OK if the digest of all bytes is the blob's.
  absl::Status Judge();
  absl::Status Damaged();

  const std::unique_ptr<BlobSource> source_;
  VerifiedBlobs& verified_;
  const BlobRef blob_;
  const uint64_t end_;
  const bool is_whole_;
  uint64_t next_;             // of the bytes that Read returns
  uint64_t n_hashed_ = 0;     // bytes from the beginning that are in digest_
  bool is_verified_ = false;  // it was checked at its stamp
  Sha256 digest_;
};

}  // namespace nerf
