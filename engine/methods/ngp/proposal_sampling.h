#pragma once

#include "engine/base/aabb.h"
#include "engine/base/ray.h"

namespace nerf {

// Samples of a ray where a proposal network found density. A ray is cut into intervals by edges in
// [0, 1], which its span maps to distances. Source: Barron et al. 2022, "Mip-NeRF 360", section 3.

// The part of a ray that has samples.
struct RaySpan {
  float t_near = 0, t_far = 0;
  bool disparity = false;  // even steps of 1 / t, not of t

  bool IsEmpty() const { return !(t_near < t_far); }
  float DistanceAt(float s) const {
    if (!disparity) return t_near + (t_far - t_near) * s;
    return 1 / ((1 - s) / t_near + s / t_far);
  }
};
// The part in the box, between the ray's own ends. With disparity it begins no nearer than 1/1000
// of the box's side.
RaySpan SpanOfRay(const Aabb& box, const Ray& ray, bool disparity);

// edges [n + 1] of even intervals from 0 to 1, the inner ones shifted by (jitter - 1/2) / n; jitter
// in [0, 1).
void EvenEdges(int n, float jitter, float* edges);

// The exponent that weights get before intervals are drawn from them: 0 at first, so that intervals
// lie everywhere, 1 from a tenth of the budget on.
float AnnealedExponent(double fraction);

// Edges [m + 1], ascending, at which the cumulative distribution of the n intervals' weights, each
// to the power of `exponent`, is (k + jitter) / (m + 1). A hundredth of it is spread evenly.
void ResampledEdges(int n, const float* edges, const float* weights, float exponent, int m,
                    float jitter, float* resampled);

// The loss that pulls the proposal's weights [n] over those [m] of the field, which it must bound
// from above:
//   loss = sum over k of max(0, weight_k - bound_k)^2 / (weight_k + 1e-7)
// with bound_k = sum of the proposal's weights of intervals that overlap the field's interval k.
// grad_weights [n] becomes its gradient by the proposal's weights; none goes to the field's.
double InterlevelLoss(int n, const float* edges, const float* weights, int m,
                      const float* field_edges, const float* field_weights, float* grad_weights);

}  // namespace nerf
