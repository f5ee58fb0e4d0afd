#include "common/files/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "common/error_reason.h"

namespace nerf {

void UniqueFd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status ErrnoToStatus(int error, std::string_view action) {
  const std::string message = fmt::format("{}: {}", action, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:         // links that lead to themselves
    case ENAMETOOLONG:  // there can be no such file
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case EROFS:
      return WithReason(absl::UnavailableError(message), reason::kStoreReadOnly);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status WriteFully(int fd, std::string_view bytes, uint64_t offset, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, fmt::format("write {}", path));
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status FsyncDirectory(const std::string& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoToStatus(errno, "open " + directory);
  if (fsync(fd.get()) != 0) return ErrnoToStatus(errno, "fsync " + directory);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoToStatus(errno, "open " + path);
  std::string content;
  std::vector<char> buffer(size_t{1} << 16);
  while (true) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "read " + path);
    if (n == 0) return content;
    if (content.size() + static_cast<size_t>(n) > max_bytes) {
      return WithReason(
          absl::ResourceExhaustedError(fmt::format("{} holds more than {} bytes", path, max_bytes)),
          reason::kSizeLimit);
    }
    content.append(buffer.data(), static_cast<size_t>(n));
  }
}

}  // namespace nerf
