#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/vec3.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/methods/ngp/view_parameters/view_values.h"

namespace nerf {

// Brightness and tint of each training picture: a picture shows gain * color, channel by channel,
// of what the field has, before the background. Gains are learned as logarithms; the mean of each
// channel's gains over the pictures stays 1, so that views are as bright as pictures are on
// average. Part of a training's state; models do not hold them. Used from one thread.
class ViewExposures {
 public:
  // n_views 0: there are no exposures to learn, and nothing is saved.
  explicit ViewExposures(int n_views);

  bool empty() const { return gains_.empty(); }
  size_t n_views() const { return gains_.size(); }
  const Vec3* gains() const { return gains_.data(); }  // [n_views]

  // Adam on the sum over the rays of each view, in the order of the rays. Shapes: views,
  // grad_log_gains [n_rays].
  void Update(const kernels::AdamSettings& settings, std::span<const int32_t> views,
              std::span<const Vec3> grad_log_gains);
  // The same with those sums [n_views][3].
  void UpdateFromSums(const kernels::AdamSettings& settings, std::span<const float> sums);

  // "view.log_gains" [n_views, 3] with its moments, F32. Errors: InvalidArgument naming the tensor;
  // nothing is then changed.
  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);

 private:
  void FindGains();

  ViewValues log_gains_;          // [n_views, 3]
  std::vector<float> gradients_;  // likewise
  std::vector<Vec3> gains_;
};

}  // namespace nerf
