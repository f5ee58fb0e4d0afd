#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/views/depth_colors.h"

namespace nerf {

// Depths of a whole set until its farthest point is known, in a temporary file: a path can have
// thousands of views.
class DepthSpool {
 public:
  DepthSpool();
  ~DepthSpool();
  DepthSpool(const DepthSpool&) = delete;
  DepthSpool& operator=(const DepthSpool&) = delete;

  // depths in the data set's units, [height * width]; `name` is a part of the files' names.
  absl::Status Append(const std::string& name, int width, int height,
                      const std::vector<float>& depths);

  // depth_NAME.png (16 bits) and depth_color_NAME.png of each view into the folder, and depth.json.
  absl::Status WriteImages(const std::string& out);

 private:
  struct View {
    std::string name;
    int width, height;
  };
  std::FILE* file_;
  std::vector<View> views_;
  DepthRange range_;
  float largest_ = 0;
};

}  // namespace nerf
