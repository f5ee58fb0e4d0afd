#include "engine/methods/mlp/field_evaluator.h"

namespace nerf {

MlpFieldEvaluator::MlpFieldEvaluator(const MlpFieldNetworks& networks, int max_rows)
    : field_(networks.field, /*with_backward=*/false) {
  field_.Reserve(max_rows, 0);
  if (networks.warp == nullptr) return;
  warp_ = std::make_unique<MlpEvaluator>(*networks.warp, /*with_backward=*/false);
  warp_->Reserve(max_rows, 0);
  moved_.resize(max_rows);
}

void MlpFieldEvaluator::Density(int n, const Vec3* positions, const float* times, float* sigmas) {
  if (warp_ != nullptr) {
    warp_->Move(n, positions, times, moved_.data());
    positions = moved_.data();
  }
  field_.Density(0, n, positions, sigmas, times);
}

}  // namespace nerf
