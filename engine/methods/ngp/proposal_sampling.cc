#include "engine/methods/ngp/proposal_sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace nerf {
namespace {

constexpr float kMinDisparityDistance = 1e-3f;  // in sides of the box
constexpr float kEvenShare = 0.01f;             // of the distribution that is drawn from
constexpr double kAnnealedUntil = 0.1;          // share of the budget
constexpr double kAnnealSlope = 10;
constexpr float kMinWeight = 1e-7f;

}  // namespace

RaySpan SpanOfRay(const Aabb& box, const Ray& ray, bool disparity) {
  RaySpan span{ray.t_near, ray.t_far, disparity};
  for (int axis = 0; axis < 3; ++axis) {
    const float d = ray.direction[axis], o = ray.origin[axis];
    // Finite instead of 1 / 0, because 0 * infinity is NaN.
    const float inverse = std::abs(d) > 1e-12f ? 1 / d : 1e12f;
    const float a = (box.min[axis] - o) * inverse, b = (box.max[axis] - o) * inverse;
    span.t_near = std::max(span.t_near, std::min(a, b));
    span.t_far = std::min(span.t_far, std::max(a, b));
  }
  if (disparity) span.t_near = std::max(span.t_near, kMinDisparityDistance * box.Size().x);
  return span;
}

void EvenEdges(int n, float jitter, float* edges) {
  edges[0] = 0;
  for (int i = 1; i < n; ++i)
    edges[i] = (static_cast<float>(i) + jitter - 0.5f) / static_cast<float>(n);
  edges[n] = 1;
}

float AnnealedExponent(double fraction) {
  const double x = std::clamp(fraction / kAnnealedUntil, 0.0, 1.0);
  return static_cast<float>(kAnnealSlope * x / ((kAnnealSlope - 1) * x + 1));
}

void ResampledEdges(int n, const float* edges, const float* weights, float exponent, int m,
                    float jitter, float* resampled) {
  std::vector<float> shares(n);
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    // 0 to the power of 0 is 1.
    shares[i] = exponent == 1 ? weights[i] : std::pow(weights[i], exponent);
    sum += shares[i];
  }
  // A ray that meets nothing is sampled evenly.
  const float scale = sum > 0 ? (1 - kEvenShare) / sum : 0;
  const float rest = sum > 0 ? kEvenShare : 1;
  int i = 0;
  float below = 0, share = shares[0] * scale + rest * (edges[1] - edges[0]);
  for (int k = 0; k <= m; ++k) {
    const float u = (static_cast<float>(k) + jitter) / static_cast<float>(m + 1);
    while (u >= below + share && i + 1 < n) {
      below += share;
      ++i;
      share = shares[i] * scale + rest * (edges[i + 1] - edges[i]);
    }
    const float part = std::clamp((u - below) / share, 0.0f, 1.0f);
    resampled[k] = edges[i] + part * (edges[i + 1] - edges[i]);
  }
}

double InterlevelLoss(int n, const float* edges, const float* weights, int m,
                      const float* field_edges, const float* field_weights, float* grad_weights) {
  std::fill_n(grad_weights, n, 0.0f);
  double loss = 0;
  int first = 0;
  for (int k = 0; k < m; ++k) {
    // Intervals [first, end) overlap interval k.
    while (first + 1 < n && edges[first + 1] <= field_edges[k]) ++first;
    int end = first;
    float bound = 0;
    while (end < n && (end == first || edges[end] < field_edges[k + 1])) bound += weights[end++];
    const float excess = std::max(0.0f, field_weights[k] - bound);
    const float relative = excess / (field_weights[k] + kMinWeight);
    loss += static_cast<double>(excess) * relative;
    for (int i = first; i < end; ++i) grad_weights[i] -= 2 * relative;
  }
  return loss;
}

}  // namespace nerf
