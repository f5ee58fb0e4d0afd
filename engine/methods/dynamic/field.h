#pragma once

#include "engine/field/radiance_field.h"
#include "engine/methods/dynamic/evaluator.h"
#include "engine/methods/dynamic/time_range.h"
#include "engine/methods/ngp/field.h"

namespace nerf {

// The dynamic field with parameters of its own, for evaluation and rendering. Immutable;
// thread-safe.
class DynamicField final : public RadianceField {
 public:
  // As NgpField; warp_weights [kWarpWeights]. Times beyond `times` show its nearest end.
  DynamicField(const kernels::HashGridShape& shape, const Aabb& box, float density_shift,
               Buffer<Half> table, Buffer<float> weights, Buffer<float> warp_weights,
               TimeRange times);

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override;
  void SetTime(float time, Workspace* workspace) const override;
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override;
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override;
  const NgpField& ngp() const { return ngp_; }
  const float* warp_weights() const { return warp_weights_.data(); }  // [kWarpWeights]
  const TimeRange& times() const { return times_; }
  uint64_t byte_size() const { return ngp_.byte_size() + warp_weights_.byte_size(); }

 private:
  DynamicNetwork network() const { return {{ngp_.network()}, {warp_weights_.data()}}; }

  const NgpField ngp_;  // holds the parameters
  const Buffer<float> warp_weights_;
  const TimeRange times_;
};

}  // namespace nerf
