#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// One channel of an OpenEXR picture.
struct ExrChannel {
  char name = 'Y';                // R, G, B, A, Y (gray) or Z (depth)
  bool is_half = true;            // else 32 bits
  std::span<const float> values;  // [height * width], rows top to bottom
};

// An OpenEXR file of scan lines, compressed by ZIP in blocks of 16. Equal pictures give equal
// bytes. channels: sorted by name, none twice. Errors: InvalidArgument for an empty picture or a
// channel of another size; Cancelled after a stop, which is looked at between blocks.
// Source: OpenEXR, "OpenEXR File Layout" and "Technical Introduction to OpenEXR".
absl::StatusOr<std::string> EncodeExr(int width, int height, std::span<const ExrChannel> channels,
                                      const std::stop_token& stop = {});

// A gray (Y), RGB or RGBA picture in halves. Colors, sRGB in the picture, are linear light and, as
// OpenEXR has them, multiplied by the alpha; gray is taken as it is.
absl::StatusOr<std::string> EncodeExrPicture(const ImageU8& image,
                                             const std::stop_token& stop = {});

// Depths (Z) in floats, as they are.
absl::StatusOr<std::string> EncodeExrDepth(int width, int height, const std::vector<float>& depths,
                                           const std::stop_token& stop = {});

}  // namespace nerf
