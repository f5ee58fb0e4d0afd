#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/scene/pictures/image_io.h"

// Headers of HEIF (HEIC, AVIF) and WebP, read without their libraries: only the engine decodes
// them.
namespace nerf {

// Copies up to `size` bytes from `offset` of an image file; returns their number.
using ReadImageAt = std::function<size_t(uint64_t offset, void* bytes, size_t size)>;

// Whether a file that begins with these bytes (12 at least) is one.
bool IsHeif(std::string_view beginning);
bool IsWebp(std::string_view beginning);

// The size of the primary picture, cropped and turned as the file says. Errors: InvalidArgument if
// the file ends early, has no such picture, or is of a kind that is not read (films).
absl::StatusOr<ImageHeader> ParseHeifHeader(const ReadImageAt& read_at);
absl::StatusOr<ImageHeader> ParseWebpHeader(const ReadImageAt& read_at);

}  // namespace nerf
