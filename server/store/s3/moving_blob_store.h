#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "server/store/blob_store.h"
#include "server/store/folder_blob_store.h"
#include "server/store/s3/s3_blob_store.h"

namespace nerf {

// Blobs of a folder on their way into a bucket. Both are read; what is new goes into the bucket.
// MoveAll copies one blob after the other, compares its digest, and deletes its file once the
// bucket has it, so after a crash at any point a blob is in one of them or in both, and the next
// process goes on. Thread-safe.
class MovingBlobStore final : public BlobStore {
 public:
  // Opens the bucket, and the folder <root>/blobs. Errors: theirs.
  static absl::StatusOr<std::unique_ptr<MovingBlobStore>> Open(const std::string& root,
                                                               const S3Options& s3,
                                                               const BlobStoreOptions& options,
                                                               const Clock* clock,
                                                               RandomSource* random);

  // Moves all blobs of the folder, and tries those again that failed. Damaged ones are moved aside
  // as by a reader. `sleep` is called between two of them; it ends where that returns false.
  void MoveAll(const std::function<bool(absl::Duration)>& sleep);

  absl::StatusOr<UploadStatus> GetUpload(const std::string& upload_id, const BlobRef& blob,
                                         PresentBlob present) override;
  absl::StatusOr<UploadStatus> Append(const std::string& upload_id, const BlobRef& blob,
                                      uint64_t offset, std::string_view chunk, Uploader uploader,
                                      PresentBlob present) override;
  absl::StatusOr<Stored> Finish(const std::string& upload_id, const BlobRef& blob,
                                Uploader uploader, PresentBlob present) override;
  std::vector<UnfinishedUpload> ListUploads() override;
  absl::StatusOr<BlobRef> Put(std::string_view content, Uploader uploader) override;
  bool Has(const BlobRef& blob) override;
  std::vector<BlobRef> FindToUpload(std::span<const BlobRef> blobs) override;
  std::vector<BlobRef> FindMissing(std::span<const BlobRef> blobs) override;
  void Release(const BlobRef& blob) override;
  absl::StatusOr<std::unique_ptr<BlobReader>> OpenRead(const BlobRef& blob, uint64_t offset,
                                                       uint64_t limit) override;
  // None for a blob that is in the folder alone.
  absl::StatusOr<SignedUrl> SignRead(const BlobRef& blob) override;
  absl::StatusOr<SignedUrl> SignWrite(const BlobRef& blob) override;
  absl::StatusOr<Stored> Adopt(const BlobRef& blob) override;
  absl::Status Delete(const BlobRef& blob) override ABSL_LOCKS_EXCLUDED(move_mu_);
  absl::StatusOr<size_t> Collect(const std::set<std::string>& reachable) override
      ABSL_LOCKS_EXCLUDED(move_mu_);
  // As that of the bucket. FailedPrecondition while the folder has blobs.
  absl::StatusOr<BlobStoreStats> LinkAll(const std::string& folder,
                                         const std::function<absl::Status()>& first) override;
  BlobStoreStats Stats() override;
  std::vector<BlobRef> ListFolder(int folder) override;

 private:
  explicit MovingBlobStore(const Clock* clock) : clock_(*clock) {}
  // Moves the next blob. False if there is none.
  absl::StatusOr<bool> MoveNext() ABSL_LOCKS_EXCLUDED(move_mu_);
  absl::Status Move(const BlobRef& blob) ABSL_EXCLUSIVE_LOCKS_REQUIRED(move_mu_);

  const Clock& clock_;
  // Const after Open. Both have <root>/uploads and <root>/age; the folder gets no uploads.
  std::unique_ptr<FolderBlobStore> folder_;
  std::unique_ptr<S3BlobStore> bucket_;
  Mutex move_mu_;  // held while one blob is moved, and while blobs are deleted
  int next_folder_ ABSL_GUARDED_BY(move_mu_) = 0;
  std::vector<BlobRef> next_ ABSL_GUARDED_BY(move_mu_), failed_ ABSL_GUARDED_BY(move_mu_);
};

}  // namespace nerf
