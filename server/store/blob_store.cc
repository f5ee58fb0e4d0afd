#include "server/store/blob_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/store/folder_blob_store.h"

namespace nerf {

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(const std::string& root,
                                                           const BlobStoreOptions& options,
                                                           const Clock* clock) {
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<BlobStore> store,
                        FolderBlobStore::Open(root, options, clock));
  return store;
}

absl::StatusOr<std::string> BlobStore::Read(const BlobRef& blob, uint64_t offset, uint64_t limit) {
  NERF_ASSIGN_OR_RETURN(const auto reader, OpenRead(blob, offset, limit));
  while (true) {
    NERF_ASSIGN_OR_RETURN(const bool may_read, reader->Prepare());
    if (may_read) return reader->Read(limit);
  }
}

absl::StatusOr<Stored> BlobStore::Adopt(const BlobRef& blob) {
  if (!Has(blob)) return BlobNotFoundError(blob);
  return Stored::kWasPresent;
}

absl::Status DamagedBlobError(const BlobRef& blob) {
  return WithReason(
      absl::DataLossError(BlobName(blob) + " is damaged on the server's disk: upload it again"),
      reason::kBlobDamaged);
}

absl::Status BlobNotFoundError(const BlobRef& blob) {
  return WithReason(absl::NotFoundError(BlobName(blob) + " not found"), reason::kResourceNotFound);
}

absl::StatusOr<uint64_t> EndOfRange(const BlobRef& blob, uint64_t offset, uint64_t limit) {
  if (offset > blob.byte_size) {
    return WithReason(absl::OutOfRangeError(fmt::format("offset {} is beyond the {} bytes of {}",
                                                        offset, blob.byte_size, BlobName(blob))),
                      reason::kOffsetOutOfRange);
  }
  return offset + std::min(limit, blob.byte_size - offset);
}

}  // namespace nerf
