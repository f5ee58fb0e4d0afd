#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace nerf {

// Tells a changed file from the one whose bytes were checked: nobody but its owner could set its
// time back. What a failing disk changes it does not tell.
struct FileStamp {
  uint64_t inode = 0, byte_size = 0;
  int64_t nanoseconds = 0;  // of the last change of its bytes
  bool operator==(const FileStamp&) const = default;
};

FileStamp StampOf(const struct stat& status);
// nullopt where there is no regular file.
std::optional<FileStamp> StampOfFile(const std::string& path);

}  // namespace nerf
