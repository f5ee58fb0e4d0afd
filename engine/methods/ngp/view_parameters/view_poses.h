#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/config/train_config.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/ray_gradients.h"
#include "engine/methods/ngp/view_parameters/view_values.h"

namespace nerf {

using kernels::RayGradient;
// One ray in this many is used to learn poses: the gradient by position costs a tenth of a sample's
// time.
inline constexpr int kPoseRays = 4;

// Learning rate of the poses over the table's: pose_rate at first, falling to a sixteenth of it
// over the budget in geometric progression. Large steps find poses from afar; once the picture is
// sharp, their noise would blur it. fraction in [0, 1].
float PoseRate(const TrainConfig& config, double fraction);
// The same for focal lengths and focal_rate.
float FocalRate(const TrainConfig& config, double fraction);

// Corrections of the training cameras' poses, learned with the field: each view is turned about its
// camera by a rotation vector and moved. What all cameras do together is taken out after each
// update (a turn, a shift, a scale): pictures do not determine it, and views that are asked for
// would show a scene that has moved. Part of a training's state; models hold the corrected poses.
// Used from one thread but for Apply.
class ViewPoses {
 public:
  // positions: of the views' cameras, training units; none: there are no poses to learn, and
  // nothing is saved. length: training units that a camera moves by where its parameters say 1, so
  // that turning and moving have one rate.
  ViewPoses(const std::vector<Vec3>& positions, float length);

  bool empty() const { return corrections_.empty(); }
  // Corrects a ray of a view. Thread-safe between updates.
  void Apply(int view, Ray* ray) const;
  // The pose of a view's camera, corrected.
  Mat34 Corrected(int view, const Mat34& stated) const;
  // A direction that Apply turned, as it was before.
  Vec3 Uncorrected(int view, Vec3 direction) const;

  // Adam on the sum over the rays of each view, in the order of the rays, which are corrected ones.
  // Shapes: views, rays, gradients [n_rays].
  void Update(const kernels::AdamSettings& settings, std::span<const int32_t> views,
              std::span<const Ray> rays, std::span<const RayGradient> gradients);

  // "view.poses" [n_views, 6], rotation vector and shift, with its moments, F32. Errors:
  // InvalidArgument naming the tensor; nothing is then changed.
  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);

 private:
  struct Correction {
    Vec3 rows[3];  // of the rotation
    Vec3 shift;
  };
  void TakeOutCommonMotion();
  void FindCorrections();

  float length_;
  std::vector<Vec3> positions_;   // of the cameras, minus their mean, over length_
  ViewValues poses_;              // [n_views, 6]
  std::vector<float> gradients_;  // likewise
  std::vector<Correction> corrections_;
};

}  // namespace nerf
