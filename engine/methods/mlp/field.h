#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/field/radiance_field.h"
#include "engine/methods/mlp/field_evaluator.h"
#include "engine/methods/mlp/network.h"

namespace nerf {

// A field of one network, or of one behind a warp, with parameters of its own, for evaluation and
// rendering. Immutable; thread-safe.
class MlpField final : public RadianceField {
 public:
  // parameters: laid out by `layout`. outer_box: where the density is not 0.
  MlpField(const MlpLayout& layout, const Aabb& outer_box, Buffer<float> parameters);
  // The networks of MlpNetworks(config) that march through the grid, and the parameters of each.
  MlpField(const std::vector<MlpLayout>& networks, const Aabb& outer_box,
           std::vector<Buffer<float>> parameters);

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override;
  void SetTime(float time, Workspace* workspace) const override;
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override;
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override;

  // The field's network, as long as the field lives.
  MlpNetwork network() const { return NetworkOf(field_); }
  // The same of the warp; nullopt: there is none.
  std::optional<MlpNetwork> warp() const {
    return warp_ == nullptr ? std::nullopt : std::optional(NetworkOf(*warp_));
  }
  uint64_t byte_size() const;

 private:
  struct Part {
    Part(const MlpLayout& layout, Buffer<float> parameters);
    const MlpLayout layout;
    const Buffer<float> parameters;
    MlpDerived derived;
  };
  MlpNetwork NetworkOf(const Part& part) const;

  const Aabb box_;
  const Part field_;
  const std::unique_ptr<const Part> warp_;  // null: none
};

}  // namespace nerf
