#pragma once

#include <array>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/local_origin.h"
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

// OpenEXR's matrix: row by row, for points that are rows and stand on its left.
using ExrMatrix = std::array<float, 16>;

// The camera of a picture, in the header.
struct ExrCamera {
  // The axes of a camera in OpenEXR are left-handed: x right, y up, z along the view.
  ExrMatrix world_to_camera{};
  // To (0, 0) at the upper left and (1, 1) at the lower right corner of the picture.
  std::optional<ExrMatrix> world_to_ndc = std::nullopt;
  // Where the world's points are relative to, stored as `worldOrigin` unless it is 0.
  Vec3d origin = {0, 0, 0};
};

// An RGBA picture as EncodeExrPicture has it and its depths as one file: A, B, G and R in halves, Z
// in floats, with the camera and the chromaticities of sRGB. depths: [height * width].
absl::StatusOr<std::string> EncodeExrView(const ImageU8& rgba, const std::vector<float>& depths,
                                          const ExrCamera& camera,
                                          const std::stop_token& stop = {});

}  // namespace nerf
