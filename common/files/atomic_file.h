#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_io.h"

namespace nerf {

// A file that appears under its name whole and durable, or not at all. Written under a temporary
// name in the same folder; Commit fsyncs it, renames it over `path` and fsyncs the folder.
// Destroyed without Commit it leaves nothing. Not thread-safe. Order: Create, Append..., Commit.
class AtomicFile {
 public:
  // `mode` are the permission bits of the new file. The folder must exist.
  static absl::StatusOr<AtomicFile> Create(std::string path, uint32_t mode = 0644);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) = delete;

  absl::Status Append(std::string_view bytes);
  absl::Status Commit();

  uint64_t byte_size() const { return byte_size_; }

 private:
  AtomicFile(std::string path, std::string temporary_path, UniqueFd fd);

  std::string path_;
  std::string temporary_path_;  // empty once committed or moved away
  UniqueFd fd_;
  uint64_t byte_size_ = 0;
};

// AtomicFile in one call.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content,
                                 uint32_t mode = 0644);

}  // namespace nerf
