#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/atomic_file.h"

namespace nerf {

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
  struct Entry {
    std::string name;
    uint32_t crc = 0, byte_size = 0, offset = 0;
  };

  explicit ZipFile(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  std::vector<Entry> entries_;
};

}  // namespace nerf
