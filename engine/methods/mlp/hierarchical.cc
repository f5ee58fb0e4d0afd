#include "engine/methods/mlp/hierarchical.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/methods/mlp/describe/mlp_settings.h"

namespace nerf {
namespace {

constexpr float kWithoutEnd = 1e10f;
constexpr float kMinWeight = 1e-5f;  // so that every interval may get a sample
constexpr float kMinShare = 1e-5f;   // an interval of less is not divided

}  // namespace

void UniformSamples(float t_near, float t_far, int n, const float* jitters, float* ts) {
  const auto even = [&](int i) {
    const float s = n > 1 ? static_cast<float>(i) / static_cast<float>(n - 1) : 0.0f;
    return t_near * (1 - s) + t_far * s;
  };
  for (int i = 0; i < n; ++i) {
    ts[i] = even(i);
    if (jitters == nullptr) continue;
    const float lower = i > 0 ? 0.5f * (even(i - 1) + even(i)) : even(0);
    const float upper = i < n - 1 ? 0.5f * (even(i) + even(i + 1)) : even(n - 1);
    ts[i] = lower + (upper - lower) * jitters[i];
  }
}

void ImportanceSamples(int n_coarse, const float* ts, const float* weights, int n_fine,
                       const float* us, float* merged) {
  // Intervals lie between the middles of neighbors, with the weight of the sample inside.
  const int n_edges = n_coarse - 1;
  std::vector<float> edges(n_edges), cumulative(n_edges);
  float sum = 0;
  for (int i = 0; i < n_edges; ++i) edges[i] = 0.5f * (ts[i] + ts[i + 1]);
  for (int i = 1; i < n_edges; ++i) sum += weights[i] + kMinWeight;
  float below = 0;
  for (int i = 1; i < n_edges; ++i) {
    below += (weights[i] + kMinWeight) / sum;
    cumulative[i] = below;
  }
  std::copy_n(ts, n_coarse, merged);
  for (int k = 0; k < n_fine; ++k) {
    const float u = us != nullptr ? us[k]
                    : n_fine > 1  ? static_cast<float>(k) / static_cast<float>(n_fine - 1)
                                  : 0.5f;
    const auto above =
        std::upper_bound(cumulative.begin(), cumulative.end(), u) - cumulative.begin();
    const auto low = std::max<std::ptrdiff_t>(0, above - 1);
    const auto high = std::min<std::ptrdiff_t>(n_edges - 1, above);
    const float share = cumulative[high] - cumulative[low];
    const float part = (u - cumulative[low]) / (share < kMinShare ? 1.0f : share);
    merged[n_coarse + k] = edges[low] + part * (edges[high] - edges[low]);
  }
  std::sort(merged, merged + n_coarse + n_fine);
}

int CoarseSamples(const TrainConfig& config) { return std::max(3, Mlp(config).coarse_samples); }
int FineSamples(const TrainConfig& config) {
  return CoarseSamples(config) + Mlp(config).fine_samples;
}

RayBounds BoundsOfRay(const TrainConfig& config, const SceneGeometry& geometry, const Ray& ray,
                      Vec3 axis) {
  const float cosine = Dot(ray.direction, axis);
  const float stretch = Mlp(config).depth_planes != 0 && cosine > 0 ? 1 / cosine : 1;
  if (Mlp(config).far >= 0) return {geometry.near * stretch, Mlp(config).far * stretch};
  const Aabb box = geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)));
  RayBounds bounds{geometry.near * stretch, kWithoutEnd};
  for (int axis_index = 0; axis_index < 3; ++axis_index) {
    const float d = ray.direction[axis_index], o = ray.origin[axis_index];
    // Finite instead of 1 / 0, because 0 * infinity is NaN.
    const float inverse = std::abs(d) > 1e-12f ? 1 / d : 1e12f;
    const float a = (box.min[axis_index] - o) * inverse, b = (box.max[axis_index] - o) * inverse;
    bounds.t_near = std::max(bounds.t_near, std::min(a, b));
    bounds.t_far = std::min(bounds.t_far, std::max(a, b));
  }
  return bounds;
}

void SampleLengths(int n, const float* ts, float* lengths) {
  for (int i = 0; i + 1 < n; ++i) lengths[i] = ts[i + 1] - ts[i];
  if (n > 0) lengths[n - 1] = kWithoutEnd;
}

}  // namespace nerf
