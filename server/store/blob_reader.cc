#include "server/store/blob_reader.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "server/store/blob_store.h"

namespace nerf {

bool VerifiedBlobs::Has(const std::string& sha256, const FileStamp& stamp) const {
  MutexLock lock(mu_);
  const auto found = stamps_.find(sha256);
  return found != stamps_.end() && found->second == stamp;
}

void VerifiedBlobs::Note(const std::string& sha256, const FileStamp& stamp) {
  constexpr size_t kMost = 10'000;  // the others are checked again
  MutexLock lock(mu_);
  if (stamps_.size() >= kMost) stamps_.erase(stamps_.begin());
  stamps_[sha256] = stamp;
}

BlobReader::BlobReader(std::unique_ptr<BlobSource> source, VerifiedBlobs* verified,
                       const BlobRef& blob, uint64_t begin, uint64_t end)
    : source_(std::move(source)),
      verified_(*verified),
      blob_(blob),
      end_(end),
      is_whole_(begin == 0 && end == blob.byte_size),
      next_(begin) {}

absl::Status BlobReader::Damaged() {
  source_->MoveAside();
  return DamagedBlobError(blob_);
}

absl::Status BlobReader::Judge() {
  if (digest_.HexDigest() != blob_.sha256) return Damaged();
  verified_.Note(blob_.sha256, source_->stamp());
  is_verified_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> BlobReader::Prepare() {
  constexpr uint64_t kSliceBytes = uint64_t{16} << 20;
  constexpr uint64_t kPieceBytes = uint64_t{1} << 18;
  if (is_whole_ || is_verified_ || next_ == end_) return true;
  is_verified_ = verified_.Has(blob_.sha256, source_->stamp());  // also by another reader meanwhile
  if (is_verified_) return true;
  const uint64_t slice_end = std::min(n_hashed_ + kSliceBytes, blob_.byte_size);
  while (n_hashed_ < slice_end) {
    const uint64_t n_wanted = std::min(kPieceBytes, slice_end - n_hashed_);
    NERF_ASSIGN_OR_RETURN(const std::string piece, source_->ReadAt(n_hashed_, n_wanted));
    if (piece.size() < n_wanted) return Damaged();
    digest_.Update(piece);
    n_hashed_ += n_wanted;
  }
  if (n_hashed_ < blob_.byte_size) return false;
  NERF_RETURN_IF_ERROR(Judge());
  return true;
}

absl::StatusOr<std::string> BlobReader::Read(uint64_t max_bytes) {
  const uint64_t n_wanted = std::min(max_bytes, end_ - next_);
  if (n_wanted == 0) {
    if (blob_.byte_size == 0 && !is_verified_) NERF_RETURN_IF_ERROR(Judge());
    return std::string();
  }
  NERF_ASSIGN_OR_RETURN(std::string content, source_->ReadAt(next_, n_wanted));
  if (content.size() < n_wanted) return Damaged();
  next_ += n_wanted;
  if (is_whole_) {
    digest_.Update(content);
    if (next_ == end_) NERF_RETURN_IF_ERROR(Judge());
  }
  return content;
}

}  // namespace nerf
