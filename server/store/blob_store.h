#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/file_io.h"
#include "common/mutex.h"
#include "server/queue/resources/blob_ref.h"

namespace nerf {

struct BlobStoreOptions {
  uint64_t max_blob_size = uint64_t{1} << 32;  // bytes
  uint64_t max_chunk_size = uint64_t{1} << 20;
  uint64_t min_free_bytes = uint64_t{64} << 20;  // uploads are refused below this
  // Those of clients leave this much more, so that workers can commit checkpoints; but at most
  // this share of the disk.
  uint64_t client_reserve_bytes = uint64_t{1} << 30;
  double max_client_reserve_share = 0.05;
  absl::Duration collect_grace = absl::Hours(24);   // younger blobs and uploads are not collected
  absl::Duration release_grace = absl::Minutes(2);  // the same after Release
  // Called with the sha256 of a blob that the store has no more, before it can be stored again.
  // Must not call the store. May be empty.
  std::function<void(const std::string& sha256)> on_deleted = {};
};

// For whom a blob is stored. Workers may use the reserve.
enum class Uploader { kWorker, kClient };

// What an upload of a blob that the store has already does: it is complete at once; or, from
// somebody who may not know that, all bytes must come and are verified.
enum class PresentBlob { kCompletesUpload, kIsHidden };

// Whether an upload brought a blob that the store did not have.
enum class Stored { kNew, kWasPresent };

struct BlobStoreStats {
  uint64_t n_blobs = 0;
  uint64_t byte_size = 0;   // of all blobs
  uint64_t free_bytes = 0;  // available on the disk
};

struct UploadStatus {
  uint64_t committed_size = 0;  // bytes stored so far
  bool complete = false;        // the blob is stored
};

// Content-addressed files in a folder:
//   <root>/blobs/<first two digits>/<sha256>      whole, verified, never changed
//   <root>/uploads/<uuid>.<sha256>                what was received so far
//   <root>/damaged/<sha256>                       moved aside by MoveAside
//   <root>/age                                    the store's own time, see AgeNow
// A blob appears by rename after its digest and size were verified and its bytes synced; after a
// crash at any point the upload can continue. Uploads survive a restart. Thread-safe; uploads of
// different ids run in parallel, two writers of one upload take turns. The clock outlives it.
//
// The time of a blob's file says how long it stays when nothing refers to it. It is young from a
// client's upload until something is about to refer to it, and old from then on, and from the start
// if a worker uploaded it. So what is no longer referred to goes also if the server is killed
// before it is collected. What was asked for in this process is known in memory.
class BlobStore final : public BlobIndex {
 public:
  // Creates missing folders.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(const std::string& root,
                                                         const BlobStoreOptions& options,
                                                         const Clock* clock);

  // --- Uploads. Errors of all three: InvalidArgument FIELD_INVALID (upload id no UUID4, digest not
  // 64 lower-case hex digits, size over the limit). ---

  // The state of an upload: 0 bytes if it is unknown, complete if the blob is present and that is
  // not hidden.
  absl::StatusOr<UploadStatus> GetUpload(const std::string& upload_id, const BlobRef& blob,
                                         PresentBlob present = PresentBlob::kCompletesUpload);
  // Appends a chunk at `offset`, which is the committed size; bytes before it that are sent again
  // are skipped. Errors: InvalidArgument FIELD_INVALID (offset beyond the committed size),
  // SIZE_LIMIT as ResourceExhausted (chunk or upload larger than stated), Unavailable
  // STORE_READ_ONLY (disk full, or for a client only its reserve left). If the blob is already
  // present and that is not hidden, nothing is written and the upload is complete.
  absl::StatusOr<UploadStatus> Append(const std::string& upload_id, const BlobRef& blob,
                                      uint64_t offset, std::string_view chunk,
                                      Uploader uploader = Uploader::kWorker,
                                      PresentBlob present = PresentBlob::kCompletesUpload);
  // Verifies and stores the blob. InvalidArgument FIELD_INVALID if size or digest differ; the
  // upload is then discarded. Repeating it succeeds where a present blob is not hidden.
  absl::StatusOr<Stored> Finish(const std::string& upload_id, const BlobRef& blob,
                                Uploader uploader = Uploader::kWorker,
                                PresentBlob present = PresentBlob::kCompletesUpload);

  // --- Blobs. ---

  // Stores bytes in memory, which a client will ask for.
  absl::StatusOr<BlobRef> Put(std::string_view content, Uploader uploader = Uploader::kWorker);
  bool Has(const BlobRef& blob);
  // As FindMissing, for a client that may upload them and refer to all of them later.
  std::vector<BlobRef> FindToUpload(std::span<const BlobRef> blobs);
  std::vector<BlobRef> FindMissing(std::span<const BlobRef> blobs) override;
  // Lets a blob be collected after the release grace, unless a caller asks for it meanwhile.
  // Touches no file before the next Collect, so it may be called with locks held.
  void Release(const BlobRef& blob) override;
  // Up to `limit` bytes from `offset` (fewer at the end). NotFound RESOURCE_NOT_FOUND, also for a
  // file that is not as long as the blob's name says; DataLoss BLOB_DAMAGED for one that was moved
  // aside; OutOfRange OFFSET_OUT_OF_RANGE when offset is beyond the size.
  absl::StatusOr<std::string> Read(const BlobRef& blob, uint64_t offset, uint64_t limit);
  // Deleting a missing blob is OK.
  absl::Status Delete(const BlobRef& blob);

  // Deletes blobs whose sha256 is not in `reachable`, and idle uploads, all older than the grace
  // age. Returns the number of deleted files. Keeps blobs that FindMissing, Append or Finish
  // touched meanwhile.
  absl::StatusOr<size_t> Collect(const std::set<std::string>& reachable);

  // Hard-links every blob into `folder`, which it makes, after `first`. Nothing is collected from
  // before `first` to the end, so what `first` sees to be referred to is linked. Returns number and
  // size of the linked blobs.
  absl::StatusOr<BlobStoreStats> LinkAll(const std::string& folder,
                                         const std::function<absl::Status()>& first)
      ABSL_LOCKS_EXCLUDED(collect_mu_);

  BlobStoreStats Stats();

  // --- For BlobScrubber. ---

  static constexpr int kFolders = 256;
  // The digests of the blobs in one of the folders.
  std::vector<std::string> ListFolder(int folder) const;
  // A blob's file to read; not ok() without one.
  UniqueFd OpenToCheck(const std::string& sha256) const;
  // Moves a damaged blob into <root>/damaged, unless another file than the open one has taken its
  // place. It counts as missing from then on. Returns whether it was moved.
  bool MoveAside(const std::string& sha256, int fd) ABSL_LOCKS_EXCLUDED(mu_);

  ~BlobStore() override;

 private:
  struct Upload;
  BlobStore(std::string root, const BlobStoreOptions& options, const Clock* clock);
  absl::Status ScanSizes();
  // The time by which files age: it runs only while a server does, goes on where the last one ended
  // and has nothing to do with the wall clock, so no jump of that ages a file.
  absl::Time AgeNow() const { return age_at_open_ + (clock_.Now() - opened_at_); }
  void LoadAge();
  void SaveAge() const;
  // Makes the files of released blobs so old that Collect may delete them.
  void AgeReleased() ABSL_LOCKS_EXCLUDED(mu_, release_mu_);
  absl::Status CheckBlob(const BlobRef& blob) const;
  absl::Status CheckUpload(const std::string& upload_id, const BlobRef& blob) const;
  absl::Status RequireSpace(uint64_t byte_size, Uploader uploader) const;
  std::string BlobPath(const std::string& sha256) const;
  std::string DamagedPath(const std::string& sha256) const;
  std::string UploadPath(const std::string& upload_id, const BlobRef& blob) const;

  // Uploads are identified by their path.
  std::shared_ptr<Upload> FindUpload(const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes file and entry. Requires the upload's lock, and its `dropped` set.
  void DropUpload(const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);
  // Renames a synced file into its place. `time` is the file's.
  absl::StatusOr<Stored> MoveIn(const std::string& path, const BlobRef& blob, absl::Time time)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The time of an old file: Collect takes it unless the process knows better.
  absl::Time OldTime() const { return AgeNow() - options_.collect_grace; }

  // True if present with that size; then it is asked for, and a young file becomes younger.
  bool Touch(const BlobRef& blob) ABSL_LOCKS_EXCLUDED(mu_);
  bool EndsUpload(const BlobRef& blob, PresentBlob present) ABSL_LOCKS_EXCLUDED(mu_);
  bool TouchLocked(const BlobRef& blob) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<BlobRef> FindMissingOf(std::span<const BlobRef> blobs, bool are_named)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DeleteLocked(const std::string& sha256) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string root_;
  const BlobStoreOptions options_;
  const Clock& clock_;
  const SteadyTime opened_at_;
  absl::Time age_at_open_;  // const after Open
  Mutex mu_;                // acquired after an upload's lock; not held while bytes are written
  Mutex release_mu_ ABSL_ACQUIRED_AFTER(mu_);
  Mutex collect_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // held while blobs are collected or linked
  // Released since the last Collect, and not asked for since.
  std::map<std::string, SteadyTime> released_ ABSL_GUARDED_BY(release_mu_);
  std::map<std::string, std::shared_ptr<Upload>> uploads_ ABSL_GUARDED_BY(mu_);
  // When a blob was last asked for or stored in this process.
  std::map<std::string, SteadyTime> touched_ ABSL_GUARDED_BY(mu_);
  // Renamed into place, but the folder is not synced yet: treated as absent.
  std::set<std::string> unsynced_ ABSL_GUARDED_BY(mu_);
  uint64_t n_blobs_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t byte_size_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nerf
