#include "common/files/file_stamp.h"

namespace nerf {

FileStamp StampOf(const struct stat& status) {
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  return FileStamp{status.st_ino, static_cast<uint64_t>(status.st_size),
                   status.st_mtim.tv_sec * kNanosecondsPerSecond + status.st_mtim.tv_nsec};
}

std::optional<FileStamp> StampOfFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return StampOf(status);
}

}  // namespace nerf
