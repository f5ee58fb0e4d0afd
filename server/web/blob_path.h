#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nerf {

// A path that is a resource name of google.bytestream.ByteStream.
struct BlobPath {
  std::string resource_name;  // without the first '/'
  std::string sha256 = {};
  uint64_t byte_size = 0;
  bool is_upload = false;
};

// "/blobs/{sha256}/{size}", "/uploads/{uuid}/blobs/{sha256}/{size}", or one of them below
// "/projects/{project}"; nullopt for any other path. Whether the resource exists is the service's
// to say.
std::optional<BlobPath> ParseBlobPath(std::string_view path);

// One range of a header Range, as [begin, end).
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
enum class RangeKind { kWhole, kPart, kUnsatisfiable };

// What "bytes=a-b", "bytes=a-" or "bytes=-n" means for `byte_size` bytes. Other units, several
// ranges and what cannot be read are ignored, as HTTP allows.
RangeKind ParseRange(std::string_view header, uint64_t byte_size, ByteRange* range);

}  // namespace nerf
