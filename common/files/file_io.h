#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// Owns a file descriptor and closes it. Movable.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_ = -1;
};

// A status for errno: NotFound (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG), PermissionDenied (EACCES,
// EPERM), AlreadyExists (EEXIST), Unavailable STORE_READ_ONLY (ENOSPC, EDQUOT, EROFS),
// ResourceExhausted (EMFILE, ENFILE, ENOMEM), else Internal. Its text: "<action>: <strerror>".
absl::Status ErrnoToStatus(int error, std::string_view action);

// Writes all bytes at `offset` of an open file, in several calls if the kernel writes less.
absl::Status WriteFully(int fd, std::string_view bytes, uint64_t offset, std::string_view path);

// Makes the names in a directory durable.
absl::Status FsyncDirectory(const std::string& directory);

// A whole file. NotFound; ResourceExhausted SIZE_LIMIT when it holds more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

}  // namespace nerf
