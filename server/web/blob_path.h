#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nerf {

// A URL path that is a resource name of google.bytestream.ByteStream.
struct BlobPath {
  std::string resource_name;  // without the first '/'
  std::string sha256 = {};
  uint64_t byte_size = 0;
  bool is_upload = false;
};

// "/blobs/{sha256}/{size}", "/uploads/{uuid}/blobs/{sha256}/{size}", or either of them below
// "/projects/{project}"; nullopt for any other path. Does not check that the resource exists.
std::optional<BlobPath> ParseBlobPath(std::string_view path);

// The bytes [begin, end) of a Range header.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
enum class RangeKind { kWhole, kPart, kUnsatisfiable };

// Reads "bytes=a-b", "bytes=a-" or "bytes=-n" for a resource of `byte_size` bytes. Other units,
// several ranges and malformed headers are ignored, as HTTP allows.
RangeKind ParseRange(std::string_view header, uint64_t byte_size, ByteRange* range);

}  // namespace nerf
