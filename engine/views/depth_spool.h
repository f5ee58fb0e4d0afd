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

  // depth_color_NAME.png and depth_NAME.png (16 bits, 65535 stands for `far`) of each view into the
  // folder, then depth.json, if there is a view. Appends the paths to *written.
  absl::Status WriteImages(const std::string& out, float far, std::vector<std::string>* written);

  float largest() const { return largest_; }

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
