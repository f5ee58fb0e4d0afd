#include "engine/methods/dynamic/field.h"

#include <utility>
#include <vector>

#include "engine/field/kernels/spherical_harmonics.h"

namespace nerf {
namespace {

struct DynamicWorkspace final : RadianceField::Workspace {
  DynamicWorkspace(int max_samples, float time) : unit(max_samples), first_ray(max_samples) {
    evaluator.Reserve(max_samples, 0);
    TimeFeatures(time, features);
  }
  DynamicEvaluator evaluator;
  float features[kTimeWidth];
  std::vector<Vec3> unit;
  std::vector<int> first_ray;  // zeros: all samples have the view's time
  std::vector<float> harmonics;
  std::vector<int> direction_of;
};

}  // namespace

DynamicField::DynamicField(const kernels::HashGridShape& shape, const Aabb& box,
                           float density_shift, Buffer<Half> table, Buffer<float> weights,
                           Buffer<float> warp_weights, TimeRange times)
    : ngp_(shape, box, density_shift, std::move(table), std::move(weights)),
      warp_weights_(std::move(warp_weights)),
      times_(times) {}

std::unique_ptr<RadianceField::Workspace> DynamicField::NewWorkspace(int max_samples) const {
  return std::make_unique<DynamicWorkspace>(max_samples, times_.first);
}

void DynamicField::SetTime(float time, Workspace* workspace) const {
  TimeFeatures(times_.Clamp(time), static_cast<DynamicWorkspace*>(workspace)->features);
}

void DynamicField::Density(int n, const Vec3* positions, float* sigmas,
                           Workspace* workspace) const {
  auto& w = static_cast<DynamicWorkspace&>(*workspace);
  const Aabb& box = ngp_.network().box;
  ToUnitCube(box, n, positions, w.unit.data());
  w.evaluator.Density(network(), 0, n, w.unit.data(), w.first_ray.data(), w.features, sigmas);
  for (int i = 0; i < n; ++i) {
    if (!box.Contains(positions[i])) sigmas[i] = 0;
  }
}

void DynamicField::Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
                         Workspace* workspace) const {
  auto& w = static_cast<DynamicWorkspace&>(*workspace);
  if (n == 0) return;
  // Samples of a ray are adjacent, so most directions repeat.
  w.harmonics.clear();
  w.direction_of.resize(n);
  int n_directions = 0;
  for (int i = 0; i < n; ++i) {
    if (i == 0 || directions[i] != directions[i - 1]) {
      w.harmonics.resize(size_t{kDirectionWidth} * ++n_directions);
      kernels::SphericalHarmonics4(
          directions[i], w.harmonics.data() + size_t{kDirectionWidth} * (n_directions - 1));
    }
    w.direction_of[i] = n_directions - 1;
  }
  w.evaluator.Color(network(), n, samples, w.direction_of.data(), n_directions, w.harmonics.data(),
                    colors);
}

}  // namespace nerf
