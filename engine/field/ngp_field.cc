#include "engine/field/ngp_field.h"

#include "engine/kernels/activation.h"
#include "engine/kernels/spherical_harmonics.h"

namespace nerf {
namespace {

struct NgpWorkspace : RadianceField::Workspace {
  explicit NgpWorkspace(int max_samples)
      : max_samples(max_samples),
        unit(max_samples),
        encodings(size_t{kEncodingWidth} * max_samples),
        hidden(size_t{kHiddenWidth} * max_samples),
        hidden1(size_t{kHiddenWidth} * max_samples),
        geometry(size_t{kGeometryWidth} * max_samples),
        inputs(size_t{kColourInputWidth} * max_samples),
        colours(size_t{kColourWidth} * max_samples) {}
  int max_samples;
  Buffer<Vec3> unit;
  Buffer<float> encodings, hidden, hidden1, geometry, inputs, colours;
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
  for (int i = 0; i < n; ++i) {
    float* input = w.inputs.data() + size_t{kColourInputWidth} * i;
    kernels::SphericalHarmonics4(directions[i], input);
    std::copy_n(w.geometry.data() + size_t{kGeometryWidth} * i, kGeometryWidth,
                input + kDirectionWidth);
  }
  NgpColourForward(network_, n, w.inputs.data(), w.hidden.data(), w.hidden1.data(),
                   w.colours.data());
  for (int i = 0; i < n; ++i) {
    const float* colour = w.colours.data() + size_t{kColourWidth} * i;
    colours[i] = {colour[0], colour[1], colour[2]};
  }
}

}  // namespace nerf
