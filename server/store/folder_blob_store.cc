#include "server/store/folder_blob_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace nerf {

namespace fs = std::filesystem;

namespace {

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoToStatus(errno, "create folder " + path);
  }
  return absl::OkStatus();
}

// The error, which clients see, does not name the path. The log does.
absl::Status SyncFolder(const std::string& path) {
  const absl::Status status = FsyncDirectory(path);
  if (status.ok()) return status;
  LogError("cannot sync a folder of blobs", {{"error", std::string(status.message())}});
  absl::Status said(status.code(), "the blob store cannot sync a folder");
  const auto why = GetReason(status);
  return why.has_value() ? WithReason(std::move(said), why->reason) : said;
}

}  // namespace

absl::StatusOr<bool> HasBlobFiles(const std::string& root) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(root + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    if (IsSha256Hex(it->path().filename().string())) return true;
  }
  if (!error || error == std::errc::no_such_file_or_directory) return false;
  return ErrnoToStatus(error.value(), "list " + root + "/blobs");
}

// A blob's open file.
class FolderBlobStore::FileSource final : public BlobSource {
 public:
  FileSource(FolderBlobStore* store, std::string sha256, UniqueFd fd, const FileStamp& stamp)
      : store_(*store), sha256_(std::move(sha256)), fd_(std::move(fd)), stamp_(stamp) {}

  absl::StatusOr<std::string> ReadAt(uint64_t offset, uint64_t n_bytes) override {
    std::string content(n_bytes, '\0');
    size_t done = 0;
    while (done < content.size()) {
      const ssize_t n = pread(fd_.get(), content.data() + done, content.size() - done,
                              static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;  // an unreadable sector is damage, too
      done += static_cast<size_t>(n);
    }
    content.resize(done);
    return content;
  }
  FileStamp stamp() const override { return stamp_; }
  void ForgetCached() override { posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED); }
  void MoveAside() override { store_.MoveAside(sha256_, fd_.get()); }

 private:
  FolderBlobStore& store_;
  const std::string sha256_;
  const UniqueFd fd_;
  const FileStamp stamp_;
};

FolderBlobStore::FolderBlobStore(std::string root, const BlobStoreOptions& options,
                                 const Clock* clock)
    : root_(std::move(root)), options_(options), clock_(*clock) {}

FolderBlobStore::~FolderBlobStore() {
  if (age_ == nullptr) return;  // Open failed
  AgeReleased();
  age_->Save();
}

void FolderBlobStore::AgeReleased() {
  const absl::Duration age = options_.collect_grace - options_.release_grace;
  std::map<std::string, SteadyTime> released;
  MutexLock lock(mu_);
  {
    MutexLock release_lock(release_mu_);
    released.swap(released_);
  }
  for (const auto& [sha256, released_at] : released) {
    touched_[sha256] = released_at + -age;
    SetFileTime(BlobPath(sha256), age_->Now() - (clock_.Now() - released_at) - age);
  }
}

absl::StatusOr<std::unique_ptr<FolderBlobStore>> FolderBlobStore::Open(
    const std::string& root, const BlobStoreOptions& options, const Clock* clock) {
  auto store = std::unique_ptr<FolderBlobStore>(new FolderBlobStore(root, options, clock));
  for (const std::string& folder : {root, root + "/blobs", root + "/uploads", root + "/damaged"}) {
    NERF_RETURN_IF_ERROR(MakeFolder(folder));
  }
  NERF_RETURN_IF_ERROR(FsyncDirectory(root));
  store->age_ = std::make_unique<StoreAge>(root, clock);
  store->uploads_ = std::make_unique<UploadFolder>(root + "/uploads", options, store->age_.get());
  NERF_RETURN_IF_ERROR(store->ScanSizes());
  NERF_RETURN_IF_ERROR(store->SyncNames());
  return store;
}

absl::Status FolderBlobStore::SyncNames() {
  const std::string blobs = root_ + "/blobs";
  std::error_code error;
  std::set<std::string> folders;
  for (fs::directory_iterator it(blobs, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) folders.insert(it->path().string());
  }
  if (error) return ErrnoToStatus(error.value(), "list " + blobs);
  for (const std::string& folder : folders) NERF_RETURN_IF_ERROR(FsyncDirectory(folder));
  NERF_RETURN_IF_ERROR(FsyncDirectory(blobs));
  MutexLock lock(mu_);
  synced_folders_ = std::move(folders);
  return absl::OkStatus();
}

absl::Status FolderBlobStore::MakeBlobFolder(const std::string& folder) {
  {
    MutexLock lock(mu_);
    if (synced_folders_.contains(folder)) return absl::OkStatus();
  }
  // One that is there already may be of an upload whose sync failed or is still running.
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoToStatus(errno, "create folder of blobs");
  }
  NERF_RETURN_IF_ERROR(SyncFolder(root_ + "/blobs"));
  MutexLock lock(mu_);
  synced_folders_.insert(folder);
  return absl::OkStatus();
}

absl::Status FolderBlobStore::ScanSizes() {
  MutexLock lock(mu_);
  std::error_code error;
  for (fs::recursive_directory_iterator it(root_ + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    const std::optional<uint64_t> size = FileSize(path);
    if (!size.has_value() || !IsSha256Hex(it->path().filename().string())) continue;
    ++n_blobs_;
    byte_size_ += *size;
  }
  return error ? ErrnoToStatus(error.value(), "list " + root_ + "/blobs") : absl::OkStatus();
}

std::string FolderBlobStore::BlobPath(const std::string& sha256) const {
  return fmt::format("{}/blobs/{}/{}", root_, sha256.substr(0, 2), sha256);
}

std::string FolderBlobStore::DamagedPath(const std::string& sha256) const {
  return fmt::format("{}/damaged/{}", root_, sha256);
}

bool FolderBlobStore::TouchLocked(const BlobRef& blob) {
  if (!IsSha256Hex(blob.sha256) || unsynced_.contains(blob.sha256) ||
      unmoved_.contains(blob.sha256)) {
    return false;
  }
  const std::string path = BlobPath(blob.sha256);
  if (FileSize(path) != blob.byte_size) return false;
  touched_[blob.sha256] = clock_.Now();
  // The release grace is a margin: after a crash AgeNow goes back to where it was saved.
  if (FileTime(path) > OldTime() + options_.release_grace) SetFileTime(path, age_->Now());
  MutexLock lock(release_mu_);
  released_.erase(blob.sha256);
  return true;
}

bool FolderBlobStore::Touch(const BlobRef& blob) {
  MutexLock lock(mu_);
  return TouchLocked(blob);
}

UploadFolder::IsPresent FolderBlobStore::EndsUpload(const BlobRef& blob, PresentBlob present) {
  return [this, blob, present] { return present == PresentBlob::kCompletesUpload && Touch(blob); };
}

absl::StatusOr<UploadStatus> FolderBlobStore::GetUpload(const std::string& upload_id,
                                                        const BlobRef& blob, PresentBlob present) {
  return uploads_->Get(upload_id, blob, EndsUpload(blob, present));
}

absl::StatusOr<UploadStatus> FolderBlobStore::Append(const std::string& upload_id,
                                                     const BlobRef& blob, uint64_t offset,
                                                     std::string_view chunk, Uploader uploader,
                                                     PresentBlob present) {
  return uploads_->Append(upload_id, blob, offset, chunk, uploader, EndsUpload(blob, present));
}

absl::StatusOr<Stored> FolderBlobStore::Finish(const std::string& upload_id, const BlobRef& blob,
                                               Uploader uploader, PresentBlob present) {
  return uploads_->Finish(upload_id, blob, EndsUpload(blob, present), [&](const std::string& path) {
    return MoveIn(path, blob, uploader == Uploader::kWorker ? OldTime() : age_->Now());
  });
}

absl::StatusOr<Stored> FolderBlobStore::MoveIn(const std::string& path, const BlobRef& blob,
                                               absl::Time time) {
  SetFileTime(path, time);
  const std::string folder = fmt::format("{}/blobs/{}", root_, blob.sha256.substr(0, 2));
  NERF_RETURN_IF_ERROR(MakeBlobFolder(folder));
  {
    MutexLock lock(mu_);
    if (TouchLocked(blob)) return Stored::kWasPresent;  // another upload of it was faster
    const std::string target = BlobPath(blob.sha256);
    const std::optional<uint64_t> replaced = FileSize(target);
    if (rename(path.c_str(), target.c_str()) != 0) {
      synced_folders_.erase(folder);  // somebody may have removed it: the next upload makes it
      return ErrnoToStatus(errno, "store blob");
    }
    n_blobs_ += replaced.has_value() ? 0 : 1;
    byte_size_ += blob.byte_size - replaced.value_or(0);
    unmoved_.erase(blob.sha256);
    unsynced_.insert(blob.sha256);
  }
  const absl::Status status = SyncFolder(folder);
  MutexLock lock(mu_);
  // The blob counts as present only once its name is durable. After a failed sync that is unknown,
  // so it is removed.
  unsynced_.erase(blob.sha256);
  if (!status.ok()) {
    (void)DeleteLocked(blob.sha256);
    return status;
  }
  unlink(DamagedPath(blob.sha256).c_str());  // replaced
  TouchLocked(blob);
  return Stored::kNew;
}

std::vector<UnfinishedUpload> FolderBlobStore::ListUploads() { return uploads_->List(); }

absl::StatusOr<BlobRef> FolderBlobStore::Put(std::string_view content, Uploader uploader) {
  const BlobRef blob{Sha256Hex(content), content.size()};
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  if (Touch(blob)) return blob;
  NERF_RETURN_IF_ERROR(
      uploads_
          ->Put(blob, content, uploader,
                [&](const std::string& path) { return MoveIn(path, blob, age_->Now()); })
          .status());
  return blob;
}

bool FolderBlobStore::Has(const BlobRef& blob) { return Touch(blob); }

bool FolderBlobStore::HasDigest(const std::string& sha256) const {
  return FileSize(BlobPath(sha256)).has_value();
}

std::vector<BlobRef> FolderBlobStore::FindMissingOf(std::span<const BlobRef> blobs,
                                                    bool are_named) {
  MutexLock lock(mu_);
  std::set<BlobRef> missing;
  for (const BlobRef& blob : blobs) {
    if (!TouchLocked(blob)) {
      missing.insert(blob);
    } else if (are_named) {
      SetFileTime(BlobPath(blob.sha256), OldTime());
    }
  }
  return {missing.begin(), missing.end()};
}

std::vector<BlobRef> FolderBlobStore::FindToUpload(std::span<const BlobRef> blobs) {
  return FindMissingOf(blobs, /*are_named=*/false);
}

std::vector<BlobRef> FolderBlobStore::FindMissing(std::span<const BlobRef> blobs) {
  return FindMissingOf(blobs, /*are_named=*/true);
}

void FolderBlobStore::Release(const BlobRef& blob) {
  if (!IsSha256Hex(blob.sha256)) return;
  MutexLock lock(release_mu_);
  released_[blob.sha256] = clock_.Now();
}

absl::StatusOr<std::unique_ptr<BlobReader>> FolderBlobStore::OpenRead(const BlobRef& blob,
                                                                      uint64_t offset,
                                                                      uint64_t limit) {
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  UniqueFd fd(open(BlobPath(blob.sha256).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok() && errno != ENOENT) return ErrnoToStatus(errno, "open " + BlobName(blob));
  struct stat status;
  if (!fd.ok() && FileSize(DamagedPath(blob.sha256)).has_value()) return DamagedBlobError(blob);
  if (!fd.ok() || fstat(fd.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != blob.byte_size) {
    return BlobNotFoundError(blob);
  }
  NERF_ASSIGN_OR_RETURN(const uint64_t end, EndOfRange(blob, offset, limit));
  auto source = std::make_unique<FileSource>(this, blob.sha256, std::move(fd), StampOf(status));
  return std::make_unique<BlobReader>(std::move(source), &verified_, blob, offset, end);
}

absl::Status FolderBlobStore::Delete(const BlobRef& blob) {
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  MutexLock lock(mu_);
  return DeleteLocked(blob.sha256);
}

absl::Status FolderBlobStore::DeleteLocked(const std::string& sha256) {
  const std::string path = BlobPath(sha256);
  const std::optional<uint64_t> size = FileSize(path);
  if (!size.has_value()) return absl::OkStatus();
  if (unlink(path.c_str()) != 0) return ErrnoToStatus(errno, "delete blob");
  touched_.erase(sha256);
  unmoved_.erase(sha256);
  --n_blobs_;
  byte_size_ -= *size;
  if (options_.on_deleted) options_.on_deleted(sha256);
  return absl::OkStatus();
}

absl::StatusOr<BlobStoreStats> FolderBlobStore::LinkAll(
    const std::string& folder, const std::function<absl::Status()>& first) {
  MutexLock no_collection(collect_mu_);
  NERF_RETURN_IF_ERROR(first());
  NERF_RETURN_IF_ERROR(MakeFolder(folder));
  BlobStoreStats linked;
  std::set<std::string> folders;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root_ + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    const std::string from = it->path().string(), name = it->path().filename().string();
    const std::optional<uint64_t> size = FileSize(from);
    if (!IsSha256Hex(name) || !size.has_value()) continue;
    const std::string target = fmt::format("{}/{}", folder, name.substr(0, 2));
    if (folders.insert(target).second) NERF_RETURN_IF_ERROR(MakeFolder(target));
    if (link(from.c_str(), (target + "/" + name).c_str()) != 0) {
      return ErrnoToStatus(errno, "link " + target + "/" + name);
    }
    ++linked.n_blobs;
    linked.byte_size += *size;
  }
  if (error) return ErrnoToStatus(error.value(), "list blobs");
  for (const std::string& target : folders) NERF_RETURN_IF_ERROR(FsyncDirectory(target));
  NERF_RETURN_IF_ERROR(FsyncDirectory(folder));
  return linked;
}

absl::StatusOr<size_t> FolderBlobStore::Collect(const std::set<std::string>& reachable) {
  MutexLock one_at_a_time(collect_mu_);
  AgeReleased();
  age_->Save();
  const absl::Time age_now = age_->Now();
  const absl::Time limit = age_now - options_.collect_grace;
  const SteadyTime now = clock_.Now();
  // A file that was written and not given an age before a crash begins to age now.
  const auto is_old = [&](const std::string& path) {
    const absl::Time time = FileTime(path);
    if (time > age_now && time != absl::InfiniteFuture()) SetFileTime(path, age_now);
    return time <= limit;
  };
  size_t n_deleted = 0;
  std::error_code error;
  std::vector<std::string> candidates;
  for (fs::recursive_directory_iterator it(root_ + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (IsSha256Hex(name) && !reachable.contains(name)) candidates.push_back(name);
  }
  if (error) return ErrnoToStatus(error.value(), "list blobs");
  for (const std::string& sha256 : candidates) {
    // Checked with the lock held, because a caller may have asked for the blob meanwhile.
    MutexLock lock(mu_);
    const auto touched = touched_.find(sha256);
    if (touched != touched_.end() && now - touched->second < options_.collect_grace) continue;
    if (!is_old(BlobPath(sha256))) continue;
    NERF_RETURN_IF_ERROR(DeleteLocked(sha256));
    ++n_deleted;
  }
  if (options_.collects_uploads) {
    NERF_ASSIGN_OR_RETURN(const size_t n_uploads, uploads_->DeleteIdle(limit));
    n_deleted += n_uploads;
  }
  // A damaged blob that nothing names any more needs no replacement.
  for (fs::directory_iterator it(root_ + "/damaged", error), end; !error && it != end;
       it.increment(error)) {
    const std::string sha256 = it->path().filename().string();
    if (reachable.contains(sha256) || unlink(it->path().c_str()) != 0) continue;
    MutexLock lock(mu_);
    const bool was_replaced = FileSize(BlobPath(sha256)).has_value();
    if (options_.on_deleted && !was_replaced) options_.on_deleted(sha256);
  }
  MutexLock lock(mu_);
  std::erase_if(touched_,
                [&](const auto& item) { return now - item.second >= options_.collect_grace; });
  return n_deleted;
}

std::vector<BlobRef> FolderBlobStore::ListFolder(int folder) {
  std::vector<BlobRef> blobs;
  std::error_code error;
  for (fs::directory_iterator it(fmt::format("{}/blobs/{:02x}", root_, folder), error), end;
       !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    const std::optional<uint64_t> size = FileSize(it->path().string());
    if (IsSha256Hex(name) && size.has_value()) blobs.push_back({std::move(name), *size});
  }
  return blobs;
}

void FolderBlobStore::MoveAside(const std::string& sha256, int fd) {
  const std::string path = BlobPath(sha256);
  struct stat checked, current;
  {
    MutexLock lock(mu_);
    if (fstat(fd, &checked) != 0 || lstat(path.c_str(), &current) != 0 ||
        checked.st_ino != current.st_ino || checked.st_dev != current.st_dev) {
      return;
    }
    touched_.erase(sha256);
    if (rename(path.c_str(), DamagedPath(sha256).c_str()) == 0) {
      unmoved_.erase(sha256);
      --n_blobs_;
      byte_size_ -= static_cast<uint64_t>(current.st_size);
    } else if (!unmoved_.insert(sha256).second) {
      return;  // said before
    }
  }
  LogError("a blob is damaged on the disk and counts as missing; upload it again",
           {{"sha256", sha256}});
  if (options_.on_damaged) options_.on_damaged(sha256);
}

BlobStoreStats FolderBlobStore::Stats() {
  BlobStoreStats stats;
  struct statvfs disk;
  if (statvfs(root_.c_str(), &disk) == 0) {
    stats.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  }
  MutexLock lock(mu_);
  stats.n_blobs = n_blobs_;
  stats.byte_size = byte_size_;
  return stats;
}

}  // namespace nerf
