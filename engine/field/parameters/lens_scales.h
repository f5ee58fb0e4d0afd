#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"
#include "engine/scene/camera.h"

namespace nerf {

// A lens of the training pictures, whatever their size, and by how much its focal lengths were
// found to differ from those that the data set states.
struct LensScale {
  LensModel lens = LensModel::kPinhole;
  // Focal lengths and principal point over the picture's width (x) and height (y).
  float fl_x = 0, fl_y = 0, cx = 0, cy = 0;
  LensDistortion distortion;
  float scale = 1;  // found focal length over the stated one
};

// The lens of a camera, with scale 1.
LensScale LensScaleOf(const Camera& camera);
// Whether a and b state the same lens, up to the rounding of pictures' sizes when they are reduced.
bool IsSameLens(const LensScale& a, const LensScale& b);
// The camera with the focal lengths that were found for its lens; as it is where none is the same.
Camera WithFoundFocal(std::span<const LensScale> lenses, const Camera& camera);

// Tensor "view.lenses" [n_lenses, 14], F32: model, fl_x, fl_y, cx, cy, k1, k2, k3, p1, p2, k4, k5,
// k6, scale. Nothing is written without lenses; files without the tensor have none. Errors:
// InvalidArgument naming the tensor.
void SaveLensScales(std::span<const LensScale> lenses, TensorFile* file);
absl::StatusOr<std::vector<LensScale>> ReadLensScales(const TensorFile& file);

}  // namespace nerf
