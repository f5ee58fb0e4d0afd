#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf::protocol {

// A view of a data set, as the answer to a check with `out` lists it in a file.
struct SceneView {
  std::string file;  // picture, by its path in the data set
  bool is_test = false;
  // Camera in the data set's own frame; lengths in pixels of the picture.
  uint32_t width = 0, height = 0;
  double fl_x = 0, fl_y = 0, cx = 0, cy = 0;
  bool is_opencv = false;                         // else without distortion
  double k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0;  // with is_opencv
  std::vector<double> matrix = {};                // camera-to-world, row-major, 3x4
  double time = 0;                                // 0 to 1

  bool operator==(const SceneView&) const = default;
};

// The file's text: {"views":[{...}, ...]}.
std::string ToText(const std::vector<SceneView>& views);
// Errors: InvalidArgument for text that ToText has not made.
absl::StatusOr<std::vector<SceneView>> ParseSceneViews(std::string_view text);

}  // namespace nerf::protocol
