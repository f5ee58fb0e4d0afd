#include "engine/methods/ngp/field.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/spherical_harmonics.h"

namespace nerf {
namespace {

constexpr int kBatch = 128;  // samples whose activations stay in a core's L2 cache

struct NgpWorkspace : RadianceField::Workspace {
  explicit NgpWorkspace(int max_samples)
      : max_samples(max_samples), geometry(size_t{kGeometryWidth} * max_samples) {}
  int max_samples;
  Buffer<float> geometry;  // of the last Density call
  // Of a batch.
  Vec3 unit[kBatch];
  int direction_of[kBatch];
  std::array<int, kBatch> all_samples;
  Buffer<float> encodings{size_t{kEncodingWidth} * kBatch};
  Buffer<float> hidden{size_t{kHiddenWidth} * kBatch}, hidden1{size_t{kHiddenWidth} * kBatch};
  Buffer<float> seen_geometry{size_t{kGeometryWidth} * kBatch};
  Buffer<float> harmonics{size_t{kDirectionWidth} * kBatch},
      direction_terms{size_t{kHiddenWidth} * kBatch};
  Buffer<float> colors{size_t{kColorWidth} * kBatch};
};

void ColorOfBatch(const NgpNetwork& network, int n, const int* samples, const Vec3* directions,
                  Vec3* colors, NgpWorkspace* w) {
  // Samples of a ray are adjacent, so most directions repeat.
  int n_directions = 0;
  for (int i = 0; i < n; ++i) {
    if (i == 0 || directions[i] != directions[i - 1]) {
      kernels::SphericalHarmonics4(directions[i],
                                   w->harmonics.data() + size_t{kDirectionWidth} * n_directions++);
    }
    w->direction_of[i] = n_directions - 1;
  }
  NgpDirectionTerms(network, n_directions, w->harmonics.data(), w->direction_terms.data());
  for (int i = 0; i < n; ++i) {
    std::copy_n(w->direction_terms.data() + size_t{kHiddenWidth} * w->direction_of[i], kHiddenWidth,
                w->hidden.data() + size_t{kHiddenWidth} * i);
    std::copy_n(w->geometry.data() + size_t{kGeometryWidth} * samples[i], kGeometryWidth,
                w->seen_geometry.data() + size_t{kGeometryWidth} * i);
  }
  NgpColorForward(network, n, w->seen_geometry.data(), w->hidden.data(), w->hidden1.data(),
                  w->colors.data());
  for (int i = 0; i < n; ++i) {
    const float* color = w->colors.data() + size_t{kColorWidth} * i;
    colors[i] = {color[0], color[1], color[2]};
  }
}

}  // namespace

NgpField::NgpField(const kernels::HashGridShape& shape, const Aabb& box, float density_shift,
                   Buffer<Half> table, Buffer<float> weights)
    : NgpField(NgpNetwork{.shape = shape, .box = box, .density_shift = density_shift},
               std::move(table), std::move(weights)) {}

NgpField::NgpField(const NgpNetwork& network, Buffer<Half> table, Buffer<float> weights,
                   Buffer<float> appearance)
    : table_(std::move(table)),
      weights_(std::move(weights)),
      appearance_(std::move(appearance)),
      network_(network) {
  NERF_CHECK(table_.size() == network.shape.level_size() * network.shape.n_levels);
  NERF_CHECK(weights_.size() == kNgpWeights);
  network_.table = nullptr;
  network_.half_table = table_.data();
  network_.weights = weights_.data();
  network_.appearance = appearance_.empty() ? nullptr : appearance_.data();
  network_.weight_pairs = PackNgpWeightPairs(weights_.data(), false, weight_pairs_.data());
}

std::unique_ptr<RadianceField::Workspace> NgpField::NewWorkspace(int max_samples) const {
  return std::make_unique<NgpWorkspace>(max_samples);
}

void NgpField::Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const {
  auto& w = static_cast<NgpWorkspace&>(*workspace);
  NERF_CHECK(n <= w.max_samples);
  for (int begin = 0; begin < n; begin += kBatch) {
    const int batch = std::min(kBatch, n - begin);
    ToEncodedCube(network_, batch, positions + begin, w.unit);
    NgpDensityForward(network_, batch, w.unit, w.encodings.data(), w.hidden.data(),
                      w.geometry.data() + size_t{kGeometryWidth} * begin);
  }
  kernels::cpu::DensityActivation({.n = n,
                                   .outputs = w.geometry.data(),
                                   .stride = kGeometryWidth,
                                   .shift = network_.density_shift,
                                   .sigmas = sigmas});
  for (int i = 0; i < n; ++i) {
    if (!network_.box.Contains(positions[i])) sigmas[i] = 0;
  }
}

// The field's color infinitely far away.
void NgpField::Background(int n, const Vec3* directions, Vec3* colors, Workspace* workspace) const {
  auto& w = static_cast<NgpWorkspace&>(*workspace);
  NERF_CHECK(n <= w.max_samples);
  std::iota(w.all_samples.begin(), w.all_samples.end(), 0);
  for (int begin = 0; begin < n; begin += kBatch) {
    const int batch = std::min(kBatch, n - begin);
    for (int i = 0; i < batch; ++i) w.unit[i] = EncodedHorizon(network_, directions[begin + i]);
    NgpDensityForward(network_, batch, w.unit, w.encodings.data(), w.hidden.data(),
                      w.geometry.data());
    ColorOfBatch(network_, batch, w.all_samples.data(), directions + begin, colors + begin, &w);
  }
}

void NgpField::Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
                     Workspace* workspace) const {
  auto& w = static_cast<NgpWorkspace&>(*workspace);
  for (int begin = 0; begin < n; begin += kBatch) {
    ColorOfBatch(network_, std::min(kBatch, n - begin), samples + begin, directions + begin,
                 colors + begin, &w);
  }
}

}  // namespace nerf
