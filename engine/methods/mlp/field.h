#pragma once

#include "engine/field/radiance_field.h"
#include "engine/methods/mlp/network.h"

namespace nerf {

// One network with parameters of its own, for evaluation and rendering. Immutable; thread-safe.
class MlpField final : public RadianceField {
 public:
  // parameters: laid out by `layout`. outer_box: where the density is not 0.
  MlpField(const MlpLayout& layout, const Aabb& outer_box, Buffer<float> parameters);

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override;
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override;
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override;

  // The network, as long as the field lives.
  MlpNetwork network() const;
  uint64_t byte_size() const { return parameters_.byte_size() * 3 / 2; }

 private:
  const MlpLayout layout_;
  const Aabb box_;
  const Buffer<float> parameters_;
  MlpDerived derived_;
};

}  // namespace nerf
