#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/scene/pictures/image.h"

namespace nerf {

// The tags of a photograph's EXIF block that describe how it was taken. Missing or damaged ones
// keep their default.
struct ExifTags {
  int orientation = 1;  // 1 to 8, as TIFF numbers them; 1: upright
  std::string make, model, lens;
  std::optional<double> focal_length_mm;
  std::optional<double> focal_length_35mm;  // equivalent on 35 mm film

  bool operator==(const ExifTags&) const = default;
};

// The EXIF block of a JPEG file: the content of its first APP1 segment of that kind, from
// "Exif\0\0" on. Empty if there is none.
std::string_view FindExif(std::string_view jpeg);

// The first EXIF block in a file of another kind, as HEIC and WebP hold it. Empty if there is none.
std::string_view FindExifAnywhere(std::string_view file);

// `exif` is what FindExif returned. Reads at most 512 entries.
ExifTags ParseExif(std::string_view exif);

// The block without its orientation tag, for pixels that were turned upright.
std::string WithoutOrientation(std::string_view exif);

// The JPEG file with this EXIF block as its first segment. Requires: `jpeg` starts with a JPEG's
// two bytes. A block that does not fit into a segment is left out.
std::string WithExif(std::string_view jpeg, std::string_view exif);

// The picture turned and mirrored upright, from an `orientation` of 1 to 8.
ImageU8 Upright(const ImageU8& image, int orientation);

}  // namespace nerf
