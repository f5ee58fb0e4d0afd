#include "common/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/status_macros.h"

namespace nerf {

AtomicFile::AtomicFile(std::string path, std::string temporary_path, UniqueFd fd)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), fd_(std::move(fd)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      fd_(std::move(other.fd_)),
      byte_size_(other.byte_size_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path, uint32_t mode) {
  constexpr std::string_view kEnding = ".tmp-XXXXXX";
  // Cut where the ending does not fit. A name that is too long by itself fails here.
  const size_t name_size = path.size() - (path.rfind('/') + 1);
  const size_t wanted = name_size + kEnding.size();
  const size_t cut = name_size <= NAME_MAX && wanted > NAME_MAX ? wanted - NAME_MAX : 0;
  std::string temporary_path = path.substr(0, path.size() - cut).append(kEnding);
  UniqueFd fd(mkostemp(temporary_path.data(), O_CLOEXEC));
  if (!fd.ok()) return ErrnoToStatus(errno, "create " + path);
  // In an engine's sandbox modes cannot be changed: the file keeps 0600.
  if (fchmod(fd.get(), mode) != 0 && errno != EPERM) {
    const int error = errno;
    unlink(temporary_path.c_str());
    return ErrnoToStatus(error, "chmod " + path);
  }
  return AtomicFile(std::move(path), std::move(temporary_path), std::move(fd));
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  absl::Status status = WriteFully(fd_.get(), bytes, byte_size_, path_);
  if (status.ok()) byte_size_ += bytes.size();
  return status;
}

absl::Status AtomicFile::Commit() {
  if (temporary_path_.empty()) return absl::FailedPreconditionError("committed already: " + path_);
  if (fsync(fd_.get()) != 0) return ErrnoToStatus(errno, "fsync " + path_);
  fd_.Reset();
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return ErrnoToStatus(errno, "rename to " + path_);
  }
  temporary_path_.clear();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  return FsyncDirectory(folder.empty() ? "." : folder);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content, uint32_t mode) {
  NERF_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path, mode));
  NERF_RETURN_IF_ERROR(file.Append(content));
  return file.Commit();
}

}  // namespace nerf
