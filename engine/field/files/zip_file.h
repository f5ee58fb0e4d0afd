#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/atomic_file.h"

namespace nerf {

// The names and places of a zip archive's files, and the bytes between and behind these.
class ZipDirectory {
 public:
  // What stands before the bytes of a file that begins at `offset`.
  std::string Add(const std::string& name, std::string_view bytes, uint64_t offset);
  // What stands behind the last file, at `offset`.
  std::string End(uint64_t offset) const;

  size_t n_files() const { return entries_.size(); }
  // Of End.
  size_t byte_size() const;

 private:
  struct Entry {
    std::string name;
    uint32_t crc = 0, byte_size = 0, offset = 0;
  };

  std::vector<Entry> entries_;
};

// The bytes of an archive of the same form as ZipFile's, with files of these names and bytes.
// Requires: below 4 GB in all.
std::string ZipOf(std::span<const std::pair<std::string, std::string>> files);

// A zip archive that is written file by file, stored uncompressed. It appears under its name whole
// or not at all, as AtomicFile. The same files make the same bytes: times are that of the format's
// first day. Order: Create, Add..., Commit. Source: PKWARE, APPNOTE.TXT, 4.3.7 to 4.3.16.
class ZipFile {
 public:
  static constexpr uint64_t kMaxBytes = 0xfffffffe;

  static absl::StatusOr<ZipFile> Create(const std::string& path);

  // name: relative, with `/`, each another. Errors: InvalidArgument for one of more than 65535
  // bytes; ResourceExhausted beyond kMaxBytes or 65534 files, which archives without extensions
  // cannot hold; those of writing.
  absl::Status Add(const std::string& name, std::string_view bytes);
  absl::Status Commit();

 private:
  explicit ZipFile(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  ZipDirectory directory_;
};

}  // namespace nerf
