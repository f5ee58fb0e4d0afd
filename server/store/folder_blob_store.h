#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/file_io.h"
#include "common/mutex.h"
#include "server/store/blob_reader.h"
#include "server/store/blob_store.h"
#include "server/store/store_age.h"
#include "server/store/upload_folder.h"

namespace nerf {

// Files in a folder:
//   <root>/blobs/<first two digits>/<sha256>      whole, verified, never
//   changed <root>/uploads/<uuid>.<sha256>                what was received so
//   far (UploadFolder) <root>/damaged/<sha256>                       damaged
//   ones, moved aside <root>/age                                    the store's
//   own time (StoreAge)
// A blob appears by rename after its bytes were synced. The time of a blob's file says how long it
// stays when nothing refers to it. So what is no longer referred to goes also if the server is
// killed before it is collected.
class FolderBlobStore final : public BlobStore {
 public:
  // Creates missing folders.
  static absl::StatusOr<std::unique_ptr<FolderBlobStore>> Open(const std::string& root,
                                                               const BlobStoreOptions& options,
                                                               const Clock* clock);
  ~FolderBlobStore() override;

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
  // Touches no file before the next Collect, so it may be called with locks held.
  void Release(const BlobRef& blob) override;
  absl::StatusOr<std::unique_ptr<BlobReader>> OpenRead(const BlobRef& blob, uint64_t offset,
                                                       uint64_t limit) override;
  absl::Status Delete(const BlobRef& blob) override;
  absl::StatusOr<size_t> Collect(const std::set<std::string>& reachable) override
      ABSL_LOCKS_EXCLUDED(collect_mu_);
  absl::StatusOr<BlobStoreStats> LinkAll(const std::string& folder,
                                         const std::function<absl::Status()>& first) override
      ABSL_LOCKS_EXCLUDED(collect_mu_);
  BlobStoreStats Stats() override;
  std::vector<BlobRef> ListFolder(int folder) override;
  // Whether there is a file of this digest, which stays as old as it is.
  bool HasDigest(const std::string& sha256) const;
  // Of a blob's file.
  std::string PathOf(const BlobRef& blob) const { return BlobPath(blob.sha256); }

 private:
  class FileSource;
  FolderBlobStore(std::string root, const BlobStoreOptions& options, const Clock* clock);
  absl::Status ScanSizes();
  // Makes names durable that a killed process has left unsynced: they count as present from now on.
  absl::Status SyncNames() ABSL_LOCKS_EXCLUDED(mu_);
  // Makes a folder of blobs, with its name durable.
  absl::Status MakeBlobFolder(const std::string& folder) ABSL_LOCKS_EXCLUDED(mu_);
  // Makes the files of released blobs so old that Collect may delete them.
  void AgeReleased() ABSL_LOCKS_EXCLUDED(mu_, release_mu_);
  std::string BlobPath(const std::string& sha256) const;
  std::string DamagedPath(const std::string& sha256) const;
  // Renames a synced file into its place. `time` is the file's.
  absl::StatusOr<Stored> MoveIn(const std::string& path, const BlobRef& blob, absl::Time time)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Moves a damaged blob into <root>/damaged, unless another file than the open one has taken its
  // place.
  void MoveAside(const std::string& sha256, int fd) ABSL_LOCKS_EXCLUDED(mu_);
  // The time of an old file: Collect takes it unless the process knows better.
  absl::Time OldTime() const { return age_->Now() - options_.collect_grace; }

  // True if present with that size; then it is asked for, and a young file becomes younger.
  bool Touch(const BlobRef& blob) ABSL_LOCKS_EXCLUDED(mu_);
  UploadFolder::IsPresent EndsUpload(const BlobRef& blob, PresentBlob present);
  bool TouchLocked(const BlobRef& blob) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<BlobRef> FindMissingOf(std::span<const BlobRef> blobs, bool are_named)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DeleteLocked(const std::string& sha256) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string root_;
  const BlobStoreOptions options_;
  const Clock& clock_;
  // Const after Open, which makes the folders before.
  std::unique_ptr<StoreAge> age_;
  std::unique_ptr<UploadFolder> uploads_;
  VerifiedBlobs verified_;
  Mutex mu_;  // acquired after an upload's lock; not held while bytes are written
  Mutex release_mu_ ABSL_ACQUIRED_AFTER(mu_);
  Mutex collect_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // held while blobs are collected or linked
  // Released since the last Collect, and not asked for since.
  std::map<std::string, SteadyTime> released_ ABSL_GUARDED_BY(release_mu_);
  // When a blob was last asked for or stored in this process.
  std::map<std::string, SteadyTime> touched_ ABSL_GUARDED_BY(mu_);
  // Renamed into place, but the folder is not synced yet: treated as absent.
  std::set<std::string> unsynced_ ABSL_GUARDED_BY(mu_);
  // Folders of blobs whose own names are durable.
  std::set<std::string> synced_folders_ ABSL_GUARDED_BY(mu_);
  // Damaged and still in place: treated as absent until an upload replaces it.
  std::set<std::string> unmoved_ ABSL_GUARDED_BY(mu_);
  uint64_t n_blobs_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t byte_size_ ABSL_GUARDED_BY(mu_) = 0;
};

// Whether a folder has blobs, as FolderBlobStore keeps them. Makes nothing. Errors: of the folder,
// if it is there and cannot be read.
absl::StatusOr<bool> HasBlobFiles(const std::string& root);

}  // namespace nerf
