#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/scene/image.h"

namespace nerf {

// What a photograph's EXIF block says of how it was taken. What is missing or damaged stays at its
// default.
struct ExifTags {
  int orientation = 1;  // 1 to 8, as TIFF numbers them; 1: upright
  std::string make, model, lens;
  std::optional<double> focal_length_mm;
  std::optional<double> focal_length_35mm;  // that which a 35 mm film would need

  bool operator==(const ExifTags&) const = default;
};

// The EXIF block of a JPEG file: the content of its first APP1 segment of that kind, from
// "Exif\0\0" on. Empty where there is none.
std::string_view FindExif(std::string_view jpeg);

// `exif` is what FindExif returned. Reads at most 512 entries, whatever the block claims.
ExifTags ParseExif(std::string_view exif);

// The block without its orientation, whose pixels are upright now.
std::string WithoutOrientation(std::string_view exif);

// The JPEG file with this EXIF block as its first segment. Requires: `jpeg` starts with a JPEG's
// two bytes. A block that does not fit into a segment is left out.
std::string WithExif(std::string_view jpeg, std::string_view exif);

// The picture as it is to be seen: turned and mirrored as `orientation` says, 1 to 8.
ImageU8 Upright(const ImageU8& image, int orientation);

}  // namespace nerf
