#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// A point of a COLMAP model.
struct ColmapPoint {
  uint64_t id = 0;
  std::array<double, 3> position{};
  std::array<uint8_t, 3> color{};
  double error = 0;              // mean reprojection error, pixels
  std::vector<uint32_t> images;  // ids of the photographs that show it
};

// Reads the content of a points3D.bin. Errors: DataLoss if it is cut off or states more points than
// fit its size.
absl::StatusOr<std::vector<ColmapPoint>> ParseColmapPoints(std::string_view bytes);
// The same of a points3D.txt. Errors: InvalidArgument that names the line.
absl::StatusOr<std::vector<ColmapPoint>> ParseColmapPointsText(std::string_view text);

}  // namespace nerf
