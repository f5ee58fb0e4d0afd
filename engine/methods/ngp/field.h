#pragma once

#include "engine/base/buffer.h"
#include "engine/field/radiance_field.h"
#include "engine/methods/ngp/network.h"

namespace nerf {

// The ngp field with parameters of its own, for evaluation and rendering. Immutable after
// construction; thread-safe. Source: Mueller et al. 2022.
class NgpField : public RadianceField {
 public:
  // table [n_levels][entries][n_features], weights [kNgpWeights] in the order of kNgpLayers; box is
  // the outermost box; density_shift as in kernels::DensityFromOutput.
  NgpField(const kernels::HashGridShape& shape, const Aabb& box, float density_shift,
           Buffer<Half> table, Buffer<float> weights);
  // The same with everything of `network` but the parameters, which are the field's own.
  // appearance: NgpNetwork::appearance, or empty.
  NgpField(const NgpNetwork& network, Buffer<Half> table, Buffer<float> weights,
           Buffer<float> appearance = {});

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override;
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override;
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override;
  bool HasBackground() const override { return network_.learns_background; }
  void Background(int n, const Vec3* directions, Vec3* colors, Workspace* workspace) const override;

  uint64_t byte_size() const {
    return table_.byte_size() + weights_.byte_size() + weight_pairs_.byte_size();
  }
  // The parameters, as long as the field lives.
  const NgpNetwork& network() const { return network_; }

 private:
  Buffer<Half> table_;
  Buffer<float> weights_;
  Buffer<float> appearance_;
  Buffer<uint32_t> weight_pairs_{kNgpWeightPairs};
  NgpNetwork network_;
};

}  // namespace nerf
