#pragma once

#include <cstdint>
#include <functional>
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
#include "server/queue/resources/blob_ref.h"
#include "server/store/blob_reader.h"

namespace nerf {

struct BlobStoreOptions {
  uint64_t max_blob_size = uint64_t{1} << 32;  // bytes
  uint64_t max_chunk_size = uint64_t{1} << 20;
  uint64_t min_free_bytes = uint64_t{64} << 20;  // uploads are refused below this
  // Those of clients leave this much more, so that workers can commit checkpoints; but at most this
  // share of the disk.
  uint64_t client_reserve_bytes = uint64_t{1} << 30;
  double max_client_reserve_share = 0.05;
  absl::Duration collect_grace = absl::Hours(24);   // younger blobs and uploads are not collected
  absl::Duration release_grace = absl::Minutes(2);  // the same after Release
  // Called with the sha256 of a blob that the store has no more, before it can be stored again.
  // Must not call the store. May be empty.
  std::function<void(const std::string& sha256)> on_deleted = {};
  bool collects_uploads = true;  // unfinished ones; false where another store has the same folder
  // Asked right before a blob is deleted; false: this process may not be the only writer any more,
  // and it stays. May be empty.
  std::function<bool()> may_delete = {};
  // Called when a blob was found damaged. May be empty.
  std::function<void(const std::string& sha256)> on_damaged = {};
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

// What was received of an upload that has not ended.
struct UnfinishedUpload {
  std::string name;  // UploadFileName
  uint64_t byte_size = 0;
};

// An upload's key: the digest is part of it, so that one id used for two blobs names two uploads.
inline std::string UploadFileName(const std::string& upload_id, const BlobRef& blob) {
  return upload_id + "." + blob.sha256;
}

struct SignedUrl {
  std::string url;                        // empty: none
  std::vector<std::string> headers = {};  // lines to send with it
};

struct UploadStatus {
  uint64_t committed_size = 0;  // bytes stored so far
  bool complete = false;        // the blob is stored
};

// Content-addressed bytes. A blob appears after its digest and size were verified and it is
// durable; after a crash at any point the upload can continue. Uploads survive a restart.
// Thread-safe; uploads of different ids run in parallel, two writers of one upload take turns. The
// clock outlives it.
//
// A blob that nothing refers to is collected when it is older than a grace. It is young from a
// client's upload until something is about to refer to it, and old from then on, and from the start
// if a worker uploaded it. What was asked for in this process is known in memory.
class BlobStore : public BlobIndex {
 public:
  // In a folder (FolderBlobStore). In a bucket: S3BlobStore.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(const std::string& root,
                                                         const BlobStoreOptions& options,
                                                         const Clock* clock);

  // --- Uploads. Errors of all three: InvalidArgument FIELD_INVALID (upload id neither a UUID4 nor
  // "{project}.{UUID4}", digest not 64 lower-case hex digits, size over the limit). ---

  // The state of an upload: 0 bytes if it is unknown, complete if the blob is present and that is
  // not hidden.
  virtual absl::StatusOr<UploadStatus> GetUpload(
      const std::string& upload_id, const BlobRef& blob,
      PresentBlob present = PresentBlob::kCompletesUpload) = 0;
  // Appends a chunk at `offset`, which is the committed size; bytes before it that are sent again
  // are skipped. Errors: InvalidArgument FIELD_INVALID (offset beyond the committed size),
  // SIZE_LIMIT as ResourceExhausted (chunk or upload larger than stated), Unavailable
  // STORE_READ_ONLY (disk full, or for a client only its reserve left). If the blob is already
  // present and that is not hidden, nothing is written and the upload is complete.
  virtual absl::StatusOr<UploadStatus> Append(
      const std::string& upload_id, const BlobRef& blob, uint64_t offset, std::string_view chunk,
      Uploader uploader = Uploader::kWorker,
      PresentBlob present = PresentBlob::kCompletesUpload) = 0;
  // Verifies and stores the blob. InvalidArgument FIELD_INVALID if size or digest differ; the
  // upload is then discarded. Repeating it succeeds where a present blob is not hidden.
  virtual absl::StatusOr<Stored> Finish(const std::string& upload_id, const BlobRef& blob,
                                        Uploader uploader = Uploader::kWorker,
                                        PresentBlob present = PresentBlob::kCompletesUpload) = 0;

  virtual std::vector<UnfinishedUpload> ListUploads() = 0;

  // --- Blobs. ---

  // Stores bytes in memory, which a client will ask for.
  virtual absl::StatusOr<BlobRef> Put(std::string_view content,
                                      Uploader uploader = Uploader::kWorker) = 0;
  virtual bool Has(const BlobRef& blob) = 0;
  // As FindMissing, for a client that may upload them and refer to all of them later.
  virtual std::vector<BlobRef> FindToUpload(std::span<const BlobRef> blobs) = 0;
  // Up to `limit` bytes from `offset` (fewer at the end). NotFound RESOURCE_NOT_FOUND, also for a
  // file that is not as long as the blob's name says; DataLoss BLOB_DAMAGED for one that was moved
  // aside; OutOfRange OFFSET_OUT_OF_RANGE when offset is beyond the size.
  virtual absl::StatusOr<std::unique_ptr<BlobReader>> OpenRead(const BlobRef& blob, uint64_t offset,
                                                               uint64_t limit) = 0;
  // The same in one step, for small ones.
  absl::StatusOr<std::string> Read(const BlobRef& blob, uint64_t offset, uint64_t limit);
  // By which a reader gets a blob's bytes past this process; empty where the store has none.
  // Errors: as OpenRead.
  virtual absl::StatusOr<SignedUrl> SignRead(const BlobRef& /*blob*/) { return SignedUrl(); }
  // By which an uploader puts all bytes of a blob, and calls Adopt then; empty where the store has
  // none. A store elsewhere compares the digest; the uploader has to be trusted with names.
  virtual absl::StatusOr<SignedUrl> SignWrite(const BlobRef& /*blob*/) { return SignedUrl(); }
  // NotFound for what is not there with this size.
  virtual absl::StatusOr<Stored> Adopt(const BlobRef& blob);
  // Deleting a missing blob is OK.
  virtual absl::Status Delete(const BlobRef& blob) = 0;

  // Deletes blobs whose sha256 is not in `reachable`, and idle uploads, all older than the grace
  // age. Returns the number of deleted files. Keeps blobs that FindMissing, Append or Finish
  // touched meanwhile.
  virtual absl::StatusOr<size_t> Collect(const std::set<std::string>& reachable) = 0;

  // Hard-links every blob into `folder`, which it makes, after `first`; a store elsewhere writes
  // kElsewhereFile in their place. Nothing is collected from before `first` to the end, so what
  // `first` sees to be referred to is linked. Returns number and size of the linked blobs.
  virtual absl::StatusOr<BlobStoreStats> LinkAll(const std::string& folder,
                                                 const std::function<absl::Status()>& first) = 0;

  virtual BlobStoreStats Stats() = 0;

  // For BlobScrubber: the blobs of one of the folders, by the first two digits.
  static constexpr int kFolders = 256;
  virtual std::vector<BlobRef> ListFolder(int folder) = 0;
};

// In a backup's folder of blobs: says where they are.
inline constexpr std::string_view kElsewhereFile = "elsewhere";

// DataLoss BLOB_DAMAGED.
absl::Status DamagedBlobError(const BlobRef& blob);
// NotFound RESOURCE_NOT_FOUND.
absl::Status BlobNotFoundError(const BlobRef& blob);
// The end of a range; OutOfRange OFFSET_OUT_OF_RANGE when it begins beyond the blob.
absl::StatusOr<uint64_t> EndOfRange(const BlobRef& blob, uint64_t offset, uint64_t limit);

}  // namespace nerf
