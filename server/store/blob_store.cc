#include "server/store/blob_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/atomic_file.h"
#include "common/error_reason.h"
#include "common/file_io.h"
#include "common/ids.h"
#include "common/logging.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace nerf {

namespace fs = std::filesystem;

// What was received of one upload: a file, and the digest of its bytes so far.
struct BlobStore::Upload {
  // Computes, once, the digest of what was received before a restart.
  absl::Status Open(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  Mutex mu;  // held while bytes are written: one writer of an upload at a time
  bool opened ABSL_GUARDED_BY(mu) = false;
  // Set when the upload is finished or discarded. A caller that waited for the lock must look it up
  // again: the path may name another upload now.
  bool dropped ABSL_GUARDED_BY(mu) = false;
  uint64_t byte_size ABSL_GUARDED_BY(mu) = 0;
  Sha256 sha ABSL_GUARDED_BY(mu);
};

namespace {

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoToStatus(errno, "create folder " + path);
  }
  return absl::OkStatus();
}

// The size of a regular file; nullopt when there is none.
std::optional<uint64_t> FileSize(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(status.st_size);
}

absl::Time FileTime(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return absl::InfiniteFuture();
  return absl::TimeFromTimespec(status.st_mtim);
}

void SetFileTime(const std::string& path, absl::Time time) {
  const timespec times[2] = {absl::ToTimespec(time), absl::ToTimespec(time)};
  utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
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

absl::Status UploadGone() {
  return WithReason(
      absl::UnavailableError("the upload was finished or discarded meanwhile; query its state"),
      reason::kNotReady);
}

}  // namespace

BlobStore::BlobStore(std::string root, const BlobStoreOptions& options, const Clock* clock)
    : root_(std::move(root)), options_(options), clock_(*clock), opened_at_(clock->Now()) {}

BlobStore::~BlobStore() {
  AgeReleased();
  SaveAge();
}

void BlobStore::LoadAge() {
  constexpr uint64_t kMaxLength = 64;
  const absl::StatusOr<std::string> text = ReadFile(root_ + "/age", kMaxLength);
  int64_t micros = 0;
  const bool known = text.ok() && absl::SimpleAtoi(*text, &micros) && micros > 0;
  // Files of a new store, and of one from before it had an age, were written by the wall clock.
  age_at_open_ = known ? absl::FromUnixMicros(micros) : clock_.WallNow();
  if (!known) SaveAge();
}

void BlobStore::SaveAge() const {
  const absl::Status saved =
      WriteFileAtomically(root_ + "/age", fmt::format("{}\n", absl::ToUnixMicros(AgeNow())), 0644);
  // The next server then goes on from an earlier time, and files stay a little longer.
  if (!saved.ok()) LogWarning("the age of blobs was not saved", {{"error", saved.ToString()}});
}

void BlobStore::AgeReleased() {
  const absl::Duration age = options_.collect_grace - options_.release_grace;
  std::map<std::string, SteadyTime> released;
  MutexLock lock(mu_);
  {
    MutexLock release_lock(release_mu_);
    released.swap(released_);
  }
  for (const auto& [sha256, released_at] : released) {
    touched_[sha256] = released_at + -age;
    SetFileTime(BlobPath(sha256), AgeNow() - (clock_.Now() - released_at) - age);
  }
}

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(const std::string& root,
                                                           const BlobStoreOptions& options,
                                                           const Clock* clock) {
  auto store = std::unique_ptr<BlobStore>(new BlobStore(root, options, clock));
  for (const std::string& folder : {root, root + "/blobs", root + "/uploads", root + "/damaged"}) {
    NERF_RETURN_IF_ERROR(MakeFolder(folder));
  }
  NERF_RETURN_IF_ERROR(FsyncDirectory(root));
  store->LoadAge();
  NERF_RETURN_IF_ERROR(store->ScanSizes());
  return store;
}

absl::Status BlobStore::ScanSizes() {
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

std::string BlobStore::BlobPath(const std::string& sha256) const {
  return fmt::format("{}/blobs/{}/{}", root_, sha256.substr(0, 2), sha256);
}

std::string BlobStore::DamagedPath(const std::string& sha256) const {
  return fmt::format("{}/damaged/{}", root_, sha256);
}

// The digest is part of the name, so that one id used for two blobs names two uploads.
std::string BlobStore::UploadPath(const std::string& upload_id, const BlobRef& blob) const {
  return fmt::format("{}/uploads/{}.{}", root_, upload_id, blob.sha256);
}

absl::Status BlobStore::CheckBlob(const BlobRef& blob) const {
  std::vector<FieldViolation> violations;
  if (!IsSha256Hex(blob.sha256)) {
    violations.push_back({"sha256", "must be 64 lower-case hexadecimal digits"});
  }
  if (blob.byte_size > options_.max_blob_size) {
    violations.push_back({"size", fmt::format("must be at most {}", options_.max_blob_size)});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(std::move(violations));
}

absl::Status BlobStore::CheckUpload(const std::string& upload_id, const BlobRef& blob) const {
  if (!IsUuid4(upload_id)) {
    return InvalidFieldsError({{"upload", "must be named by a version 4 UUID"}});
  }
  return CheckBlob(blob);
}

absl::Status BlobStore::RequireSpace(uint64_t byte_size, Uploader uploader) const {
  struct statvfs disk;
  if (statvfs(root_.c_str(), &disk) != 0)
    return ErrnoToStatus(errno, "free space of the blob store");
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  uint64_t stays_free = options_.min_free_bytes;
  if (uploader == Uploader::kClient) {
    const double disk_bytes =
        static_cast<double>(disk.f_blocks) * static_cast<double>(disk.f_frsize);
    stays_free += std::min(options_.client_reserve_bytes,
                           static_cast<uint64_t>(disk_bytes * options_.max_client_reserve_share));
  }
  if (free >= stays_free && free - stays_free >= byte_size) return absl::OkStatus();
  return WithReason(absl::UnavailableError(fmt::format(
                        "{} more bytes do not fit on the disk: {} are free, {} stay free",
                        byte_size, free, stays_free)),
                    reason::kStoreReadOnly);
}

bool BlobStore::TouchLocked(const BlobRef& blob) {
  if (!IsSha256Hex(blob.sha256) || unsynced_.contains(blob.sha256)) return false;
  const std::string path = BlobPath(blob.sha256);
  if (FileSize(path) != blob.byte_size) return false;
  touched_[blob.sha256] = clock_.Now();
  // The release grace is a margin: after a crash AgeNow goes back to where it was saved.
  if (FileTime(path) > OldTime() + options_.release_grace) SetFileTime(path, AgeNow());
  MutexLock lock(release_mu_);
  released_.erase(blob.sha256);
  return true;
}

bool BlobStore::Touch(const BlobRef& blob) {
  MutexLock lock(mu_);
  return TouchLocked(blob);
}

std::shared_ptr<BlobStore::Upload> BlobStore::FindUpload(const std::string& path) {
  MutexLock lock(mu_);
  std::shared_ptr<Upload>& upload = uploads_[path];
  if (upload == nullptr) upload = std::make_shared<Upload>();
  return upload;
}

void BlobStore::DropUpload(const std::string& path) {
  MutexLock lock(mu_);
  unlink(path.c_str());
  uploads_.erase(path);
}

absl::Status BlobStore::Upload::Open(const std::string& path) {
  if (opened) return absl::OkStatus();
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok() && errno != ENOENT) return ErrnoToStatus(errno, "open upload");
  sha = Sha256();
  byte_size = 0;
  std::vector<char> buffer(size_t{1} << 18);
  while (fd.ok()) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "read upload");
    if (n == 0) break;
    sha.Update({buffer.data(), static_cast<size_t>(n)});
    byte_size += static_cast<uint64_t>(n);
  }
  opened = true;
  return absl::OkStatus();
}

bool BlobStore::EndsUpload(const BlobRef& blob, PresentBlob present) {
  return present == PresentBlob::kCompletesUpload && Touch(blob);
}

absl::StatusOr<UploadStatus> BlobStore::GetUpload(const std::string& upload_id, const BlobRef& blob,
                                                  PresentBlob present) {
  NERF_RETURN_IF_ERROR(CheckUpload(upload_id, blob));
  if (EndsUpload(blob, present)) return UploadStatus{blob.byte_size, true};
  const std::string path = UploadPath(upload_id, blob);
  if (!FileSize(path).has_value()) return UploadStatus{};
  const std::shared_ptr<Upload> upload = FindUpload(path);
  MutexLock lock(upload->mu);  // waits for a chunk that is being written
  return UploadStatus{FileSize(path).value_or(0), false};
}

absl::StatusOr<UploadStatus> BlobStore::Append(const std::string& upload_id, const BlobRef& blob,
                                               uint64_t offset, std::string_view chunk,
                                               Uploader uploader, PresentBlob present) {
  NERF_RETURN_IF_ERROR(CheckUpload(upload_id, blob));
  if (chunk.size() > options_.max_chunk_size) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format("a chunk may have {} bytes, not {}",
                                                 options_.max_chunk_size, chunk.size())),
        reason::kSizeLimit);
  }
  if (EndsUpload(blob, present)) return UploadStatus{blob.byte_size, true};
  const std::string path = UploadPath(upload_id, blob);
  const std::shared_ptr<Upload> upload = FindUpload(path);
  MutexLock lock(upload->mu);
  if (upload->dropped) {
    if (EndsUpload(blob, present)) return UploadStatus{blob.byte_size, true};
    return UploadGone();
  }
  NERF_RETURN_IF_ERROR(upload->Open(path));
  if (offset > upload->byte_size) {
    return InvalidFieldsError(
        {{"write_offset", fmt::format("must be at most the committed size, {}, not {}",
                                      upload->byte_size, offset)}});
  }
  if (offset > blob.byte_size || chunk.size() > blob.byte_size - offset) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "the upload is longer than the stated {} bytes", blob.byte_size)),
                      reason::kSizeLimit);
  }
  // Skip bytes that were received before.
  chunk.remove_prefix(std::min<uint64_t>(chunk.size(), upload->byte_size - offset));
  if (chunk.empty()) return UploadStatus{upload->byte_size, false};
  NERF_RETURN_IF_ERROR(RequireSpace(blob.byte_size - upload->byte_size, uploader));
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "open upload");
  absl::Status status = WriteFully(fd.get(), chunk, upload->byte_size, "upload");
  if (!status.ok()) {
    // Cut off the part of the chunk that was written: only whole chunks are acknowledged.
    if (ftruncate(fd.get(), static_cast<off_t>(upload->byte_size)) != 0) upload->opened = false;
    return status;
  }
  upload->sha.Update(chunk);
  upload->byte_size += chunk.size();
  SetFileTime(path, AgeNow());
  return UploadStatus{upload->byte_size, false};
}

absl::StatusOr<Stored> BlobStore::Finish(const std::string& upload_id, const BlobRef& blob,
                                         Uploader uploader, PresentBlob present) {
  NERF_RETURN_IF_ERROR(CheckUpload(upload_id, blob));
  const std::string path = UploadPath(upload_id, blob);
  const std::shared_ptr<Upload> upload = FindUpload(path);
  MutexLock lock(upload->mu);
  if (upload->dropped) {
    if (EndsUpload(blob, present)) return Stored::kWasPresent;
    return UploadGone();
  }
  if (EndsUpload(blob, present)) {
    upload->dropped = true;
    DropUpload(path);
    return Stored::kWasPresent;
  }
  NERF_RETURN_IF_ERROR(upload->Open(path));
  const std::string sha256 = upload->sha.HexDigest();
  if (upload->byte_size != blob.byte_size || sha256 != blob.sha256) {
    const uint64_t received = upload->byte_size;
    upload->dropped = true;
    DropUpload(path);
    return InvalidFieldsError(
        {{"upload", fmt::format("holds {} bytes of digest {}, not {} of {}", received, sha256,
                                blob.byte_size, blob.sha256)}});
  }
  if (Touch(blob)) {
    upload->dropped = true;
    DropUpload(path);
    return Stored::kWasPresent;
  }
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "open upload");
  if (fsync(fd.get()) != 0) {
    // What is on the disk now is unknown, so the client has to start over.
    const int error = errno;
    upload->dropped = true;
    DropUpload(path);
    return ErrnoToStatus(error, "fsync upload");
  }
  const absl::Time time = uploader == Uploader::kWorker ? OldTime() : AgeNow();
  const absl::StatusOr<Stored> stored = MoveIn(path, blob, time);
  if (!stored.ok()) {
    upload->opened = false;  // the file may be gone, so read its size again
    return stored.status();
  }
  upload->dropped = true;
  DropUpload(path);
  return *stored;
}

absl::StatusOr<Stored> BlobStore::MoveIn(const std::string& path, const BlobRef& blob,
                                         absl::Time time) {
  SetFileTime(path, time);
  const std::string folder = fmt::format("{}/blobs/{}", root_, blob.sha256.substr(0, 2));
  if (mkdir(folder.c_str(), 0755) == 0) {
    NERF_RETURN_IF_ERROR(SyncFolder(root_ + "/blobs"));
  } else if (errno != EEXIST) {
    return ErrnoToStatus(errno, "create folder of blobs");
  }
  {
    MutexLock lock(mu_);
    if (TouchLocked(blob)) return Stored::kWasPresent;  // another upload of it was faster
    const std::string target = BlobPath(blob.sha256);
    const std::optional<uint64_t> replaced = FileSize(target);
    if (rename(path.c_str(), target.c_str()) != 0) return ErrnoToStatus(errno, "store blob");
    n_blobs_ += replaced.has_value() ? 0 : 1;
    byte_size_ += blob.byte_size - replaced.value_or(0);
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

absl::StatusOr<BlobRef> BlobStore::Put(std::string_view content, Uploader uploader) {
  const BlobRef blob{Sha256Hex(content), content.size()};
  NERF_RETURN_IF_ERROR(CheckBlob(blob));
  if (Touch(blob)) return blob;
  NERF_RETURN_IF_ERROR(RequireSpace(content.size(), uploader));
  SystemRandom random;
  const std::string path = UploadPath(NewUuid4(random), blob);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "create blob");
  absl::Status status = WriteFully(fd.get(), content, 0, "blob");
  if (status.ok() && fsync(fd.get()) != 0) status = ErrnoToStatus(errno, "fsync blob");
  if (status.ok()) status = MoveIn(path, blob, AgeNow()).status();
  unlink(path.c_str());  // already gone if it was moved into place
  NERF_RETURN_IF_ERROR(status);
  return blob;
}

bool BlobStore::Has(const BlobRef& blob) { return Touch(blob); }

std::vector<BlobRef> BlobStore::FindMissingOf(std::span<const BlobRef> blobs, bool are_named) {
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

std::vector<BlobRef> BlobStore::FindToUpload(std::span<const BlobRef> blobs) {
  return FindMissingOf(blobs, /*are_named=*/false);
}

std::vector<BlobRef> BlobStore::FindMissing(std::span<const BlobRef> blobs) {
  return FindMissingOf(blobs, /*are_named=*/true);
}

void BlobStore::Release(const BlobRef& blob) {
  if (!IsSha256Hex(blob.sha256)) return;
  MutexLock lock(release_mu_);
  released_[blob.sha256] = clock_.Now();
}

absl::StatusOr<std::string> BlobStore::Read(const BlobRef& blob, uint64_t offset, uint64_t limit) {
  NERF_RETURN_IF_ERROR(CheckBlob(blob));
  const UniqueFd fd(open(BlobPath(blob.sha256).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok() && errno != ENOENT) return ErrnoToStatus(errno, "open " + BlobName(blob));
  struct stat status;
  if (!fd.ok() && FileSize(DamagedPath(blob.sha256)).has_value()) {
    return WithReason(
        absl::DataLossError(BlobName(blob) + " is damaged on the server's disk: upload it again"),
        reason::kBlobDamaged);
  }
  if (!fd.ok() || fstat(fd.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != blob.byte_size) {
    return WithReason(absl::NotFoundError(BlobName(blob) + " not found"),
                      reason::kResourceNotFound);
  }
  if (offset > blob.byte_size) {
    return WithReason(absl::OutOfRangeError(fmt::format("offset {} is beyond the {} bytes of {}",
                                                        offset, blob.byte_size, BlobName(blob))),
                      reason::kOffsetOutOfRange);
  }
  std::string content(std::min(limit, blob.byte_size - offset), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = pread(fd.get(), content.data() + done, content.size() - done,
                            static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "read " + BlobName(blob));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

absl::Status BlobStore::Delete(const BlobRef& blob) {
  NERF_RETURN_IF_ERROR(CheckBlob(blob));
  MutexLock lock(mu_);
  return DeleteLocked(blob.sha256);
}

absl::Status BlobStore::DeleteLocked(const std::string& sha256) {
  const std::string path = BlobPath(sha256);
  const std::optional<uint64_t> size = FileSize(path);
  if (!size.has_value()) return absl::OkStatus();
  if (unlink(path.c_str()) != 0) return ErrnoToStatus(errno, "delete blob");
  touched_.erase(sha256);
  --n_blobs_;
  byte_size_ -= *size;
  if (options_.on_deleted) options_.on_deleted(sha256);
  return absl::OkStatus();
}

absl::StatusOr<BlobStoreStats> BlobStore::LinkAll(const std::string& folder,
                                                  const std::function<absl::Status()>& first) {
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

absl::StatusOr<size_t> BlobStore::Collect(const std::set<std::string>& reachable) {
  MutexLock one_at_a_time(collect_mu_);
  AgeReleased();
  SaveAge();
  const absl::Time age_now = AgeNow();
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
  std::vector<std::string> uploads;
  for (fs::directory_iterator it(root_ + "/uploads", error), end; !error && it != end;
       it.increment(error)) {
    uploads.push_back(it->path().string());
  }
  if (error) return ErrnoToStatus(error.value(), "list uploads");
  for (const std::string& path : uploads) {
    if (!is_old(path)) continue;
    const std::shared_ptr<Upload> upload = FindUpload(path);
    MutexLock lock(upload->mu);
    if (upload->dropped || !is_old(path)) continue;
    upload->dropped = true;
    DropUpload(path);
    ++n_deleted;
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
  // Forget idle uploads; they are read again from their files.
  std::erase_if(uploads_, [](const auto& item) { return item.second.use_count() == 1; });
  std::erase_if(touched_,
                [&](const auto& item) { return now - item.second >= options_.collect_grace; });
  return n_deleted;
}

std::vector<std::string> BlobStore::ListFolder(int folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(fmt::format("{}/blobs/{:02x}", root_, folder), error), end;
       !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (IsSha256Hex(name)) names.push_back(std::move(name));
  }
  return names;
}

UniqueFd BlobStore::OpenToCheck(const std::string& sha256) const {
  return UniqueFd(open(BlobPath(sha256).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

bool BlobStore::MoveAside(const std::string& sha256, int fd) {
  const std::string path = BlobPath(sha256);
  struct stat checked, current;
  MutexLock lock(mu_);
  if (fstat(fd, &checked) != 0 || lstat(path.c_str(), &current) != 0 ||
      checked.st_ino != current.st_ino || checked.st_dev != current.st_dev) {
    return false;
  }
  if (rename(path.c_str(), DamagedPath(sha256).c_str()) != 0) return false;
  touched_.erase(sha256);
  --n_blobs_;
  byte_size_ -= static_cast<uint64_t>(current.st_size);
  return true;
}

BlobStoreStats BlobStore::Stats() {
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
