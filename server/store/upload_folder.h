#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/queue/resources/blob_ref.h"
#include "server/store/blob_store.h"
#include "server/store/store_age.h"

namespace nerf {

// What was received of uploads so far, in files <folder>/<id>.<sha256>, which survive a restart.
// Thread-safe; uploads of different ids run in parallel, two writers of one upload take turns.
// `age` outlives it. The errors are those of BlobStore.
class UploadFolder {
 public:
  // Whether the upload is over because the store has the blob.
  using IsPresent = std::function<bool()>;
  // Makes the synced file a blob, which may rename it away.
  using MoveIn = std::function<absl::StatusOr<Stored>(const std::string& path)>;

  UploadFolder(std::string folder, const BlobStoreOptions& options, const StoreAge* age);

  absl::StatusOr<UploadStatus> Get(const std::string& upload_id, const BlobRef& blob,
                                   const IsPresent& is_present);
  absl::StatusOr<UploadStatus> Append(const std::string& upload_id, const BlobRef& blob,
                                      uint64_t offset, std::string_view chunk, Uploader uploader,
                                      const IsPresent& is_present);
  // Verifies what was received.
  absl::StatusOr<Stored> Finish(const std::string& upload_id, const BlobRef& blob,
                                const IsPresent& is_present, const MoveIn& move_in);
  // The same for bytes in memory, which are those of `blob`.
  absl::StatusOr<Stored> Put(const BlobRef& blob, std::string_view content, Uploader uploader,
                             const MoveIn& move_in);
  std::vector<UnfinishedUpload> List() const;
  // Deletes uploads whose file's time is `limit` or before. Returns how many.
  absl::StatusOr<size_t> DeleteIdle(absl::Time limit) ABSL_LOCKS_EXCLUDED(mu_);

  // InvalidArgument FIELD_INVALID for a malformed digest or one that is too large.
  absl::Status CheckBlob(const BlobRef& blob) const;

 private:
  struct Upload;
  absl::Status CheckUpload(const std::string& upload_id, const BlobRef& blob) const;
  absl::Status RequireSpace(uint64_t byte_size, Uploader uploader) const;
  std::string PathOf(const std::string& upload_id, const BlobRef& blob) const;
  // Uploads are identified by their path.
  std::shared_ptr<Upload> Find(const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes file and entry. Requires the upload's lock, and its `dropped` set.
  void Drop(const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsIdle(const std::string& path, absl::Time limit) const;

  const std::string folder_;
  const BlobStoreOptions options_;
  const StoreAge& age_;
  Mutex mu_;  // acquired after an upload's lock
  std::map<std::string, std::shared_ptr<Upload>> uploads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
