#pragma once

#include <cstddef>

#include "engine/export/files/export_axes.h"
#include "engine/methods/splats/harmonics.h"
#include "engine/methods/splats/splat_cloud.h"
#include "engine/views/path/spline.h"

namespace nerf {

// A Gaussian in the frame and unit of a file.
struct FileSplat {
  Vec3 position;
  Vec3 scale;           // standard deviations, above 0
  Quaternion rotation;  // of length 1
  float opacity = 0;    // above 0, below 1
  float colors[48];     // red, green, blue of each harmonic; see SplatCloud
};

// The splats of a cloud as files hold them: turned, in own units, with their widths in scales and
// opacities. Keeps references to both.
class FileSplats {
 public:
  FileSplats(const SplatCloud& cloud, const ExportAxes& axes);

  size_t size() const { return cloud_.size(); }
  int degree() const { return cloud_.degree; }
  int n_harmonics() const { return cloud_.n_harmonics(); }
  FileSplat At(size_t i) const;

 private:
  const SplatCloud& cloud_;
  const ExportAxes& axes_;
  const Vec3 columns_[3];  // of the turn from the training frame to the file's
  const HarmonicTurn turn_;
};

}  // namespace nerf
