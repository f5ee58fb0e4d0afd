#include "server/store/upload_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/ids.h"
#include "common/problems.h"
#include "common/status_macros.h"

namespace nerf {

namespace fs = std::filesystem;

// What was received of one upload: a file, and the digest of its bytes so far.
struct UploadFolder::Upload {
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

absl::Status UploadGone() {
  return WithReason(
      absl::UnavailableError("the upload was finished or discarded meanwhile; query its state"),
      reason::kNotReady);
}

}  // namespace

UploadFolder::UploadFolder(std::string folder, const BlobStoreOptions& options, const StoreAge* age)
    : folder_(std::move(folder)), options_(options), age_(*age) {}

std::string UploadFolder::PathOf(const std::string& upload_id, const BlobRef& blob) const {
  return folder_ + "/" + UploadFileName(upload_id, blob);
}

absl::Status UploadFolder::CheckBlob(const BlobRef& blob) const {
  Problems problems;
  if (!IsSha256Hex(blob.sha256)) {
    problems.Add("sha256", "must be 64 lower-case hexadecimal digits");
  }
  if (blob.byte_size > options_.max_blob_size) {
    problems.Add("size", fmt::format("must be at most {}", options_.max_blob_size));
  }
  return problems.Result();
}

absl::Status UploadFolder::CheckUpload(const std::string& upload_id, const BlobRef& blob) const {
  const size_t dot = upload_id.find('.');
  const bool has_project = dot != std::string::npos;
  if (!IsUuid4(has_project ? upload_id.substr(dot + 1) : upload_id) ||
      (has_project && !IsResourceId(upload_id.substr(0, dot)))) {
    return InvalidFieldsError({{"upload", "must be named by a version 4 UUID"}});
  }
  return CheckBlob(blob);
}

absl::Status UploadFolder::RequireSpace(uint64_t byte_size, Uploader uploader) const {
  struct statvfs disk;
  if (statvfs(folder_.c_str(), &disk) != 0)
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

std::shared_ptr<UploadFolder::Upload> UploadFolder::Find(const std::string& path) {
  MutexLock lock(mu_);
  std::shared_ptr<Upload>& upload = uploads_[path];
  if (upload == nullptr) upload = std::make_shared<Upload>();
  return upload;
}

void UploadFolder::Drop(const std::string& path) {
  MutexLock lock(mu_);
  unlink(path.c_str());
  uploads_.erase(path);
}

absl::Status UploadFolder::Upload::Open(const std::string& path) {
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

absl::StatusOr<UploadStatus> UploadFolder::Get(const std::string& upload_id, const BlobRef& blob,
                                               const IsPresent& is_present) {
  NERF_RETURN_IF_ERROR(CheckUpload(upload_id, blob));
  if (is_present()) return UploadStatus{blob.byte_size, true};
  const std::string path = PathOf(upload_id, blob);
  if (!FileSize(path).has_value()) return UploadStatus{};
  const std::shared_ptr<Upload> upload = Find(path);
  MutexLock lock(upload->mu);  // waits for a chunk that is being written
  return UploadStatus{FileSize(path).value_or(0), false};
}

absl::StatusOr<UploadStatus> UploadFolder::Append(const std::string& upload_id, const BlobRef& blob,
                                                  uint64_t offset, std::string_view chunk,
                                                  Uploader uploader, const IsPresent& is_present) {
  NERF_RETURN_IF_ERROR(CheckUpload(upload_id, blob));
  if (chunk.size() > options_.max_chunk_size) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format("a chunk may have {} bytes, not {}",
                                                 options_.max_chunk_size, chunk.size())),
        reason::kSizeLimit);
  }
  if (is_present()) return UploadStatus{blob.byte_size, true};
  const std::string path = PathOf(upload_id, blob);
  const std::shared_ptr<Upload> upload = Find(path);
  MutexLock lock(upload->mu);
  if (upload->dropped) {
    if (is_present()) return UploadStatus{blob.byte_size, true};
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
  SetFileTime(path, age_.Now());
  return UploadStatus{upload->byte_size, false};
}

absl::StatusOr<Stored> UploadFolder::Finish(const std::string& upload_id, const BlobRef& blob,
                                            const IsPresent& is_present, const MoveIn& move_in) {
  NERF_RETURN_IF_ERROR(CheckUpload(upload_id, blob));
  const std::string path = PathOf(upload_id, blob);
  const std::shared_ptr<Upload> upload = Find(path);
  MutexLock lock(upload->mu);
  if (upload->dropped) {
    if (is_present()) return Stored::kWasPresent;
    return UploadGone();
  }
  if (is_present()) {
    upload->dropped = true;
    Drop(path);
    return Stored::kWasPresent;
  }
  NERF_RETURN_IF_ERROR(upload->Open(path));
  const std::string sha256 = upload->sha.HexDigest();
  if (upload->byte_size != blob.byte_size || sha256 != blob.sha256) {
    const uint64_t received = upload->byte_size;
    upload->dropped = true;
    Drop(path);
    return InvalidFieldsError(
        {{"upload", fmt::format("holds {} bytes of digest {}, not {} of {}", received, sha256,
                                blob.byte_size, blob.sha256)}});
  }
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "open upload");
  if (fsync(fd.get()) != 0) {
    // What is on the disk now is unknown, so the client has to start over.
    const int error = errno;
    upload->dropped = true;
    Drop(path);
    return ErrnoToStatus(error, "fsync upload");
  }
  const absl::StatusOr<Stored> stored = move_in(path);
  if (!stored.ok()) {
    upload->opened = false;  // the file may be gone, so read its size again
    return stored.status();
  }
  upload->dropped = true;
  Drop(path);
  return *stored;
}

absl::StatusOr<Stored> UploadFolder::Put(const BlobRef& blob, std::string_view content,
                                         Uploader uploader, const MoveIn& move_in) {
  NERF_RETURN_IF_ERROR(RequireSpace(content.size(), uploader));
  SystemRandom random;
  const std::string path = PathOf(NewUuid4(random), blob);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "create blob");
  absl::Status status = WriteFully(fd.get(), content, 0, "blob");
  if (status.ok() && fsync(fd.get()) != 0) status = ErrnoToStatus(errno, "fsync blob");
  absl::StatusOr<Stored> stored = Stored::kNew;
  if (status.ok()) stored = move_in(path);
  unlink(path.c_str());  // already gone if it was moved into place
  NERF_RETURN_IF_ERROR(status);
  return stored;
}

std::vector<UnfinishedUpload> UploadFolder::List() const {
  std::vector<UnfinishedUpload> uploads;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::optional<uint64_t> size = FileSize(it->path().string());
    if (size.has_value()) uploads.push_back({it->path().filename().string(), *size});
  }
  return uploads;
}

// A file that was written and not given an age before a crash begins to age now.
bool UploadFolder::IsIdle(const std::string& path, absl::Time limit) const {
  const absl::Time time = FileTime(path), now = age_.Now();
  if (time > now && time != absl::InfiniteFuture()) SetFileTime(path, now);
  return time <= limit;
}

absl::StatusOr<size_t> UploadFolder::DeleteIdle(absl::Time limit) {
  size_t n_deleted = 0;
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path().string());
  }
  if (error) return ErrnoToStatus(error.value(), "list uploads");
  for (const std::string& path : paths) {
    if (!IsIdle(path, limit)) continue;
    const std::shared_ptr<Upload> upload = Find(path);
    MutexLock lock(upload->mu);
    if (upload->dropped || !IsIdle(path, limit)) continue;
    upload->dropped = true;
    Drop(path);
    ++n_deleted;
  }
  MutexLock lock(mu_);
  // Forget idle uploads; they are read again from their files.
  std::erase_if(uploads_, [](const auto& item) { return item.second.use_count() == 1; });
  return n_deleted;
}

}  // namespace nerf
