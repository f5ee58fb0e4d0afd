#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/lens.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/parameters/lens_scales.h"
#include "engine/methods/ngp/view_parameters/view_poses.h"
#include "engine/methods/ngp/view_parameters/view_values.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// Derivative of a ray's unit direction by the logarithm of its camera's focal lengths, where its
// image position stays. direction: as LensRay gives it. Zero where the lens has no such derivative:
// equirectangular pictures have no focal length, and distortions may have an end.
Vec3 FocalSlope(const LensCamera& camera, Vec3 direction);

// Focal lengths of the training cameras, learned with the field: each lens, which all views that
// state the same one share, has the logarithm of a scale of both focal lengths. Part of a
// training's state. Used from one thread.
class ViewFocals {
 public:
  // views empty: there are no focal lengths to learn, and nothing is saved.
  explicit ViewFocals(std::span<const View> views);

  bool empty() const { return lenses_.empty(); }
  // Sets the focal lengths of the views' cameras [n_views].
  void Apply(std::vector<LensCamera>* cameras) const;

  // Adam on the sum over the rays of each lens, in the order of the rays. Rays of known depth, to
  // points and through depth files, are left out. cameras: as set by Apply. poses: those that the
  // rays were corrected by. gradients: of the loss by rays [batch.n_rays].
  void Update(const kernels::AdamSettings& settings, const RayBatch& batch,
              std::span<const LensCamera> cameras, const ViewPoses& poses,
              std::span<const RayGradient> gradients);

  // What was found so far.
  std::vector<LensScale> Scales() const;

  // "view.log_focal_scales" [n_lenses] with its moments, F32, and the lenses (SaveLensScales).
  // Errors: InvalidArgument naming the tensor; nothing is then changed.
  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);

 private:
  std::vector<LensScale> lenses_;  // scales are 1 here
  std::vector<int> lens_of_;       // [n_views]
  std::vector<float> focals_;      // as stated, fl_x and fl_y of each view
  ViewValues log_scales_;          // [n_lenses]
};

}  // namespace nerf
