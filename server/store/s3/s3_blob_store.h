#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "server/store/blob_reader.h"
#include "server/store/blob_store.h"
#include "server/store/s3/s3_client.h"
#include "server/store/store_age.h"
#include "server/store/upload_folder.h"

namespace nerf {

// Objects of an S3 bucket, of which this process is the only writer:
//   <prefix>blobs/<sha256>     whole, verified, never changed
//   <prefix>damaged/<sha256>   damaged ones, moved aside
// Uploads are received in <root>/uploads on the disk and stored when they are whole. What the
// bucket holds is read once, at the start, and known in memory from then on; once a day it is
// compared. After a start no blob is collected before the grace.
//
// A blob is deleted in two steps: it counts as missing first, and nothing of its name is stored
// before the bucket has deleted it. What was stored although the answer was lost is found by the
// daily comparison, and collected.
class S3BlobStore final : public BlobStore {
 public:
  // Creates missing folders. Unavailable with S3's words.
  static absl::StatusOr<std::unique_ptr<S3BlobStore>> Open(const std::string& root,
                                                           const S3Options& s3,
                                                           const BlobStoreOptions& options,
                                                           const Clock* clock,
                                                           RandomSource* random);

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
  // Whether it has a blob of this digest that is not damaged, which stays as old as it is.
  bool HasDigest(const std::string& sha256) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<BlobRef> FindToUpload(std::span<const BlobRef> blobs) override;
  std::vector<BlobRef> FindMissing(std::span<const BlobRef> blobs) override;
  void Release(const BlobRef& blob) override;
  absl::StatusOr<std::unique_ptr<BlobReader>> OpenRead(const BlobRef& blob, uint64_t offset,
                                                       uint64_t limit) override;
  absl::StatusOr<SignedUrl> SignRead(const BlobRef& blob) override;
  absl::StatusOr<SignedUrl> SignWrite(const BlobRef& blob) override;
  absl::StatusOr<Stored> Adopt(const BlobRef& blob) override;
  absl::Status Delete(const BlobRef& blob) override;
  absl::StatusOr<size_t> Collect(const std::set<std::string>& reachable) override
      ABSL_LOCKS_EXCLUDED(collect_mu_);
  // The bytes stay in the bucket: `folder` gets a file that says so (kElsewhereFile).
  absl::StatusOr<BlobStoreStats> LinkAll(const std::string& folder,
                                         const std::function<absl::Status()>& first) override
      ABSL_LOCKS_EXCLUDED(collect_mu_);
  BlobStoreStats Stats() override;
  std::vector<BlobRef> ListFolder(int folder) override;
  // Stores a file that holds the blob, and leaves it. DataLoss for other bytes.
  absl::StatusOr<Stored> StoreFile(const std::string& path, const BlobRef& blob)
      ABSL_LOCKS_EXCLUDED(mu_);
  const std::string& url() const { return url_; }

 private:
  class ObjectSource;
  struct Entry {
    uint64_t byte_size = 0;
    uint64_t generation = 0;  // another one after each upload
    bool damaged = false;     // missing, until an upload replaces it
    SteadyTime touched;       // asked for or stored
  };
  // Keeps others from storing or deleting a blob in its scope.
  class Turn;

  S3BlobStore(std::string root, const S3Options& s3, const BlobStoreOptions& options,
              const Clock* clock, RandomSource* random);
  // Takes over what the bucket holds and memory does not know.
  absl::Status Compare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(collect_mu_) ABSL_LOCKS_EXCLUDED(mu_);
  UploadFolder::IsPresent EndsUpload(const BlobRef& blob, PresentBlob present);
  // The blob is in the bucket; the caller has its turn.
  void NoteStored(const BlobRef& blob) ABSL_LOCKS_EXCLUDED(mu_);
  // Its generation. NotFound, DataLoss BLOB_DAMAGED.
  absl::StatusOr<uint64_t> FindReadable(const BlobRef& blob) ABSL_LOCKS_EXCLUDED(mu_);
  // Of the blob that was stored in this generation.
  void MoveAside(const std::string& sha256, uint64_t generation) ABSL_LOCKS_EXCLUDED(mu_);
  // It is not in the bucket.
  void NoteLost(const std::string& sha256, uint64_t generation) ABSL_LOCKS_EXCLUDED(mu_);
  // Unavailable NOT_READY where options.may_delete forbids it; the same of DeleteObject.
  absl::Status CheckMayDelete() const;
  absl::Status DeleteObject(const std::string& key);
  // Deletes a blob, or a damaged one, for which `may_go` is true.
  absl::StatusOr<bool> DeleteIf(const std::string& sha256,
                                const std::function<bool(const Entry& entry)>& may_go)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Adds an entry to the statistics, or takes it away.
  void Count(const Entry& entry, bool added) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Touch(const BlobRef& blob) ABSL_LOCKS_EXCLUDED(mu_);
  bool TouchLocked(const BlobRef& blob) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string root_;
  const std::string url_;  // for people
  const bool signs_urls_;
  const BlobStoreOptions options_;
  const Clock& clock_;
  const RealClock signing_clock_;
  S3Client client_;
  std::unique_ptr<StoreAge> age_;          // const after Open
  std::unique_ptr<UploadFolder> uploads_;  // const after Open
  VerifiedBlobs verified_;
  Mutex mu_;  // acquired after an upload's lock; not held while bytes are moved
  CondVar turn_ended_;
  Mutex release_mu_ ABSL_ACQUIRED_AFTER(mu_);
  Mutex collect_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // held by Collect and LinkAll
  std::map<std::string, SteadyTime> released_ ABSL_GUARDED_BY(release_mu_);
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> in_turn_ ABSL_GUARDED_BY(mu_);    // being stored, deleted or moved
  std::set<std::string> undeleted_ ABSL_GUARDED_BY(mu_);  // whose deletion is to be repeated
  uint64_t next_generation_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t n_blobs_ ABSL_GUARDED_BY(mu_) = 0, byte_size_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<SteadyTime> compared_at_ ABSL_GUARDED_BY(collect_mu_);
};

// "s3://bucket/prefix" and "https://host:port" (or empty: that of Amazon in the region), with keys
// and region. InvalidArgument naming --blobs, --s3-endpoint or the variable that is missing.
absl::StatusOr<S3Options> ParseS3Options(const std::string& url, const std::string& endpoint,
                                         const std::function<std::string(const char*)>& variable);

}  // namespace nerf
