#include "engine/field/ngp_field.h"

#include "engine/kernels/activation.h"
#include "engine/kernels/spherical_harmonics.h"

namespace nerf {
namespace {

struct NgpWorkspace : RadianceField::Workspace {
  explicit NgpWorkspace(int max_samples)
      : max_samples(max_samples),
        unit(max_samples),
        direction_of(max_samples),
        encodings(size_t{kEncodingWidth} * max_samples),
        hidden(size_t{kHiddenWidth} * max_samples),
        hidden1(size_t{kHiddenWidth} * max_samples),
        geometry(size_t{kGeometryWidth} * max_samples),
        harmonics(size_t{kDirectionWidth} * max_samples),
        shares(size_t{kHiddenWidth} * max_samples),
        colours(size_t{kColourWidth} * max_samples) {}
  int max_samples;
  Buffer<Vec3> unit;
  Buffer<int> direction_of;
  Buffer<float> encodings, hidden, hidden1, geometry, harmonics, shares, colours;
};

}  // namespace

NgpField::NgpField(const kernels::HashGridShape& shape, const Aabb& box, Buffer<float> table,
                   Buffer<float> weights)
    : table_(std::move(table)),
      weights_(std::move(weights)),
      network_{shape, box, table_.data(), weights_.data()} {
  NERF_CHECK(table_.size() == shape.level_size() * shape.n_levels);
  NERF_CHECK(weights_.size() == kNgpWeights);
}

std::unique_ptr<RadianceField::Workspace> NgpField::NewWorkspace(int max_samples) const {
  return std::make_unique<NgpWorkspace>(max_samples);
}

void NgpField::Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const {
  auto& w = static_cast<NgpWorkspace&>(*workspace);
  NERF_CHECK(n <= w.max_samples);
  ToUnitCube(network_.box, n, positions, w.unit.data());
  NgpDensityForward(network_, n, w.unit.data(), w.encodings.data(), w.hidden.data(),
                    w.geometry.data());
  kernels::cpu::DensityActivation(
      {.n = n, .outputs = w.geometry.data(), .stride = kGeometryWidth, .sigmas = sigmas});
  for (int i = 0; i < n; ++i) {
    if (!network_.box.Contains(positions[i])) sigmas[i] = 0;
  }
}

void NgpField::DensityAndColour(int n, const Vec3* positions, const Vec3* directions, float* sigmas,
                                Vec3* colours, Workspace* workspace) const {
  Density(n, positions, sigmas, workspace);
  auto& w = static_cast<NgpWorkspace&>(*workspace);
  // Samples of a ray follow one another, so most directions are the one before.
  int n_directions = 0;
  for (int i = 0; i < n; ++i) {
    if (i == 0 || directions[i] != directions[i - 1]) {
      kernels::SphericalHarmonics4(directions[i],
                                   w.harmonics.data() + size_t{kDirectionWidth} * n_directions++);
    }
    w.direction_of[i] = n_directions - 1;
  }
  NgpDirectionShares(network_, n_directions, w.harmonics.data(), w.shares.data());
  for (int i = 0; i < n; ++i) {
    std::copy_n(w.shares.data() + size_t{kHiddenWidth} * w.direction_of[i], kHiddenWidth,
                w.hidden.data() + size_t{kHiddenWidth} * i);
  }
  NgpColourForward(network_, n, w.geometry.data(), w.hidden.data(), w.hidden1.data(),
                   w.colours.data());
  for (int i = 0; i < n; ++i) {
    const float* colour = w.colours.data() + size_t{kColourWidth} * i;
    colours[i] = {colour[0], colour[1], colour[2]};
  }
}

}  // namespace nerf
