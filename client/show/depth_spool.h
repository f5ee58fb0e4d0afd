#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/views/depth_colors.h"

namespace nerf {

// Collects the depth maps of a render. Each arrives scaled to its own far distance; the files that
// are written at the end share the largest one. Kept in a temporary file, because a path can have
// thousands of views. Not thread-safe.
class DepthSpool {
 public:
  DepthSpool();
  ~DepthSpool();
  DepthSpool(const DepthSpool&) = delete;
  DepthSpool& operator=(const DepthSpool&) = delete;

  // Adds a view's 16-bit gray PNG in which 65535 stands for the distance `far`. Errors: Internal if
  // `far` is not above 0; Unavailable when the disk is full.
  absl::Status Append(const std::string& name, const std::string& png, double far);

  // Writes depth_NAME.png and depth_color_NAME.png of each view, then depth.json, into the folder
  // `out`; appends the paths to *written. Maps with a smaller `far` are rescaled; the others keep
  // their bytes.
  absl::Status WriteImages(const std::string& out, std::vector<std::string>* written);

  double far() const { return far_; }

 private:
  struct Entry {
    std::string name;
    size_t byte_size;
    double far;
  };
  std::FILE* const file_;
  std::vector<Entry> entries_;
  double far_ = 0;  // largest of all maps
  DepthRange range_;
};

}  // namespace nerf
