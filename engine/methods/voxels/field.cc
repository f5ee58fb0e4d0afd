#include "engine/methods/voxels/field.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/spherical_harmonics.h"

namespace nerf {
namespace {

struct VoxelsWorkspace final : RadianceField::Workspace {
  explicit VoxelsWorkspace(int max_samples)
      : rows(static_cast<size_t>(max_samples) * kVoxelStride) {}
  std::vector<float> rows;  // of the last Density call
};

}  // namespace

void VoxelHarmonics(Vec3 direction, float* harmonics) {
  float all[16];
  kernels::SphericalHarmonics4(direction, all);
  std::copy_n(all, kVoxelHarmonics, harmonics);
}

Vec3 VoxelColor(const float* row, const float* harmonics) {
  Vec3 color;
  for (int channel = 0; channel < 3; ++channel) {
    const float* const coefficients = row + 1 + channel * kVoxelHarmonics;
    float sum = 0;
    for (int h = 0; h < kVoxelHarmonics; ++h) sum += coefficients[h] * harmonics[h];
    color[channel] = 1 / (1 + std::exp(-sum));
  }
  return color;
}

VoxelsField::VoxelsField(const VoxelPlacement& placement, VoxelGrid grid)
    : placement_(placement), grid_(std::move(grid)) {}

std::unique_ptr<RadianceField::Workspace> VoxelsField::NewWorkspace(int max_samples) const {
  return std::make_unique<VoxelsWorkspace>(max_samples);
}

void VoxelsField::Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const {
  auto& w = static_cast<VoxelsWorkspace&>(*workspace);
  for (int i = 0; i < n; ++i) {
    float* const row = w.rows.data() + static_cast<size_t>(i) * kVoxelStride;
    grid_.Interpolate(placement_.ToUnit(positions[i]), row);
    sigmas[i] = placement_.box.Contains(positions[i])
                    ? kernels::DensityFromOutput(row[0], placement_.density_shift)
                    : 0;
  }
}

void VoxelsField::Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
                        Workspace* workspace) const {
  const auto& w = static_cast<VoxelsWorkspace&>(*workspace);
  float harmonics[kVoxelHarmonics];
  for (int i = 0; i < n; ++i) {
    if (i == 0 || directions[i] != directions[i - 1]) VoxelHarmonics(directions[i], harmonics);
    colors[i] =
        VoxelColor(w.rows.data() + static_cast<size_t>(samples[i]) * kVoxelStride, harmonics);
  }
}

uint64_t VoxelsField::byte_size() const {
  const auto side = static_cast<uint64_t>(grid_.bricks_per_side());
  return grid_.values().byte_size() + side * side * side * sizeof(int32_t);
}

}  // namespace nerf
