#include "server/store/s3/moving_blob_store.h"

#include <fmt/format.h>

#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

// OK if the digest of what the store has is right; else what reading it said.
absl::Status ReadAll(BlobStore& store, const BlobRef& blob) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 18;
  NERF_ASSIGN_OR_RETURN(const auto reader, store.OpenRead(blob, 0, blob.byte_size));
  do {
    NERF_RETURN_IF_ERROR(reader->Read(kPieceBytes).status());
  } while (!reader->at_end());
  return absl::OkStatus();
}

bool IsGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MovingBlobStore>> MovingBlobStore::Open(
    const std::string& root, const S3Options& s3, const BlobStoreOptions& options,
    const Clock* clock, RandomSource* random) {
  auto store = std::unique_ptr<MovingBlobStore>(new MovingBlobStore(clock));
  // What the other store has is not gone.
  BlobStoreOptions of_folder = options, of_bucket = options;
  of_folder.collects_uploads = false;
  of_folder.on_deleted = [store = store.get(),
                          on_deleted = options.on_deleted](const std::string& sha256) {
    if (on_deleted && !store->bucket_->HasDigest(sha256)) on_deleted(sha256);
  };
  of_bucket.on_deleted = [store = store.get(),
                          on_deleted = options.on_deleted](const std::string& sha256) {
    if (on_deleted && !store->folder_->HasDigest(sha256)) on_deleted(sha256);
  };
  NERF_ASSIGN_OR_RETURN(store->folder_, FolderBlobStore::Open(root, of_folder, clock));
  NERF_ASSIGN_OR_RETURN(store->bucket_, S3BlobStore::Open(root, s3, of_bucket, clock, random));
  return store;
}

void MovingBlobStore::MoveAll(const std::function<bool(absl::Duration)>& sleep) {
  constexpr absl::Duration kPauseOfFailure = absl::Seconds(5);
  constexpr absl::Duration kPauseBetween = absl::Milliseconds(1);  // collections want move_mu_, too
  constexpr absl::Duration kSayInterval = absl::Minutes(1);
  SteadyTime say_at = clock_.Now();
  absl::Duration pause = absl::ZeroDuration();
  while (sleep(pause)) {
    if (clock_.Now() >= say_at) {
      const BlobStoreStats left = folder_->Stats();
      LogInfo("moving the blobs of the data folder",
              {{"to", bucket_->url()}, {"blobs", left.n_blobs}, {"bytes", left.byte_size}});
      say_at = clock_.Now() + kSayInterval;
    }
    const absl::StatusOr<bool> moved = MoveNext();
    if (moved.ok() && !*moved) {
      LogInfo("moved the blobs of the data folder", {{"to", bucket_->url()}});
      return;
    }
    pause = moved.ok() ? kPauseBetween : kPauseOfFailure;
    if (!moved.ok()) {
      LogWarning("a blob could not be moved and is tried again",
                 {{"error", std::string(moved.status().message())}});
    }
  }
}

absl::StatusOr<bool> MovingBlobStore::MoveNext() {
  MutexLock lock(move_mu_);
  while (next_.empty() && next_folder_ < kFolders) next_ = folder_->ListFolder(next_folder_++);
  if (next_.empty()) next_.swap(failed_);
  if (next_.empty()) return false;
  const BlobRef blob = std::move(next_.back());
  next_.pop_back();
  absl::Status status = Move(blob);
  if (!status.ok()) {
    failed_.push_back(blob);
    return status;
  }
  return true;
}

absl::Status MovingBlobStore::Move(const BlobRef& blob) {
  absl::Status stored = absl::NotFoundError("");
  if (bucket_->Has(blob)) stored = ReadAll(*bucket_, blob);  // an earlier process may have put it
  if (IsGone(stored)) {
    const absl::Status found = ReadAll(*folder_, blob);
    if (IsGone(found)) return absl::OkStatus();  // collected, or moved aside
    NERF_RETURN_IF_ERROR(found);
    stored = bucket_->StoreFile(folder_->PathOf(blob), blob).status();
  }
  NERF_RETURN_IF_ERROR(stored);
  return folder_->Delete(blob);
}

absl::StatusOr<UploadStatus> MovingBlobStore::GetUpload(const std::string& upload_id,
                                                        const BlobRef& blob, PresentBlob present) {
  return bucket_->GetUpload(upload_id, blob, present);
}

absl::StatusOr<UploadStatus> MovingBlobStore::Append(const std::string& upload_id,
                                                     const BlobRef& blob, uint64_t offset,
                                                     std::string_view chunk, Uploader uploader,
                                                     PresentBlob present) {
  return bucket_->Append(upload_id, blob, offset, chunk, uploader, present);
}

absl::StatusOr<Stored> MovingBlobStore::Finish(const std::string& upload_id, const BlobRef& blob,
                                               Uploader uploader, PresentBlob present) {
  return bucket_->Finish(upload_id, blob, uploader, present);
}

std::vector<UnfinishedUpload> MovingBlobStore::ListUploads() { return bucket_->ListUploads(); }

absl::StatusOr<BlobRef> MovingBlobStore::Put(std::string_view content, Uploader uploader) {
  return bucket_->Put(content, uploader);
}

// The folder is asked first: what it has no more is in the bucket.
bool MovingBlobStore::Has(const BlobRef& blob) { return folder_->Has(blob) || bucket_->Has(blob); }

std::vector<BlobRef> MovingBlobStore::FindToUpload(std::span<const BlobRef> blobs) {
  return bucket_->FindToUpload(folder_->FindToUpload(blobs));
}

std::vector<BlobRef> MovingBlobStore::FindMissing(std::span<const BlobRef> blobs) {
  return bucket_->FindMissing(folder_->FindMissing(blobs));
}

void MovingBlobStore::Release(const BlobRef& blob) {
  folder_->Release(blob);
  bucket_->Release(blob);
}

absl::StatusOr<std::unique_ptr<BlobReader>> MovingBlobStore::OpenRead(const BlobRef& blob,
                                                                      uint64_t offset,
                                                                      uint64_t limit) {
  auto in_folder = folder_->OpenRead(blob, offset, limit);
  if (!IsGone(in_folder.status())) return in_folder;
  auto in_bucket = bucket_->OpenRead(blob, offset, limit);
  if (absl::IsNotFound(in_bucket.status())) return in_folder;  // says which it is
  return in_bucket;
}

absl::StatusOr<SignedUrl> MovingBlobStore::SignRead(const BlobRef& blob) {
  if (folder_->Has(blob) && !bucket_->Has(blob)) return SignedUrl();
  return bucket_->SignRead(blob);
}

absl::StatusOr<SignedUrl> MovingBlobStore::SignWrite(const BlobRef& blob) {
  return bucket_->SignWrite(blob);
}

absl::StatusOr<Stored> MovingBlobStore::Adopt(const BlobRef& blob) { return bucket_->Adopt(blob); }

absl::Status MovingBlobStore::Delete(const BlobRef& blob) {
  MutexLock lock(move_mu_);
  NERF_RETURN_IF_ERROR(folder_->Delete(blob));
  return bucket_->Delete(blob);
}

absl::StatusOr<size_t> MovingBlobStore::Collect(const std::set<std::string>& reachable) {
  MutexLock lock(move_mu_);
  NERF_ASSIGN_OR_RETURN(const size_t n_of_bucket, bucket_->Collect(reachable));
  NERF_ASSIGN_OR_RETURN(const size_t n_of_folder, folder_->Collect(reachable));
  return n_of_bucket + n_of_folder;
}

absl::StatusOr<BlobStoreStats> MovingBlobStore::LinkAll(
    const std::string& folder, const std::function<absl::Status()>& first) {
  if (const uint64_t n_left = folder_->Stats().n_blobs; n_left > 0) {
    return absl::FailedPreconditionError(
        fmt::format("{} blobs have yet to move to {}: back up after that", n_left, bucket_->url()));
  }
  return bucket_->LinkAll(folder, first);
}

BlobStoreStats MovingBlobStore::Stats() {
  BlobStoreStats stats = bucket_->Stats();
  const BlobStoreStats left = folder_->Stats();
  stats.n_blobs += left.n_blobs;
  stats.byte_size += left.byte_size;
  return stats;
}

std::vector<BlobRef> MovingBlobStore::ListFolder(int folder) {
  std::vector<BlobRef> blobs = bucket_->ListFolder(folder);
  for (BlobRef& blob : folder_->ListFolder(folder)) blobs.push_back(std::move(blob));
  return blobs;
}

}  // namespace nerf
