#include "engine/methods/dynamic/evaluator.h"

#include <algorithm>

namespace nerf {

void DynamicEvaluator::Reserve(int n_rows, int n_kept) {
  if (n_rows <= capacity_) return;
  capacity_ = std::max(n_rows, 2 * capacity_);
  warp_.Reserve(capacity_, n_kept);
  rows_.Reserve(capacity_, n_kept);
  // Scratch of one call, so nothing is kept.
  warped_ = Buffer<Vec3>(capacity_);
  grad_warped_ = Buffer<Vec3>(capacity_);
}

void DynamicEvaluator::Density(const DynamicNetwork& network, int begin, int n, const Vec3* unit,
                               const int* ray_of, const float* features, float* sigmas) {
  warp_.Forward(network.warp, begin, n, unit, ray_of, features, warped_.data());
  rows_.Density(network.ngp.network, begin, n, warped_.data(), sigmas);
}

void DynamicEvaluator::MoveRow(int from, int to) {
  warp_.MoveRow(from, to);
  rows_.MoveRow(from, to);
}

void DynamicEvaluator::Color(const DynamicNetwork& network, int n, const int* rows,
                             const int* ray_of, int n_rays, const float* harmonics, Vec3* colors) {
  rows_.Color(network.ngp.network, n, rows, ray_of, n_rays, harmonics, colors);
}

void DynamicEvaluator::Backward(const DynamicNetwork& network, int n, const int* ray_of,
                                const float* features, const float* harmonics,
                                const float* grad_sigmas, const Vec3* grad_colors,
                                LaneOutput* output, float* warp_gradients) {
  rows_.Backward(network.ngp, n, ray_of, harmonics, grad_sigmas, grad_colors, output,
                 grad_warped_.data());
  warp_.Backward(network.warp, n, ray_of, features, grad_warped_.data(), warp_gradients);
}

}  // namespace nerf
