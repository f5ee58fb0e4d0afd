#include "engine/train/ray_count_controller.h"

#include <algorithm>

#include "engine/field/files/metadata_reader.h"

namespace nerf {
namespace {

constexpr int kRayBlock = 64;
constexpr double kFade = 0.8;  // a sum remembers about the last five steps
constexpr double kMaxGrowth = 2;
constexpr double kMaxSum = 1e18;

}  // namespace

RayCountController::RayCountController(const RayCountOptions& options) : options_(options) {
  state_.n_rays = Clamped(options_.initial_rays);
}

int RayCountController::Clamped(double n_rays) const {
  const double bounded = std::clamp(n_rays, 1.0, static_cast<double>(options_.max_rays));
  const int whole = static_cast<int>(bounded) / kRayBlock * kRayBlock;
  return std::min(std::max(whole, kRayBlock), options_.max_rays);
}

void RayCountController::Restore(const RayCountState& state) {
  state_ = state;
  state_.n_rays = Clamped(state.n_rays);
}

void RayCountController::Save(TensorFile* file) const {
  file->metadata["ray_count.next"] = MetadataText(state_.n_rays);
  file->metadata["ray_count.sums"] =
      MetadataText(state_.n_trained, state_.n_marched, state_.n_summed_rays);
}

absl::StatusOr<RayCountState> RayCountController::Load(const TensorFile& file) {
  MetadataReader reader(file);
  RayCountState state;
  reader.One<int>("ray_count.next", 1, 1 << 24, &state.n_rays);
  reader.Numbers<double>("ray_count.sums", 0, kMaxSum,
                         {&state.n_trained, &state.n_marched, &state.n_summed_rays});
  if (!reader.status.ok()) return reader.status;
  return state;
}

void RayCountController::Update(const StepResult& result, int target_samples) {
  state_.n_trained = kFade * state_.n_trained + static_cast<double>(result.n_trained);
  state_.n_marched = kFade * state_.n_marched + static_cast<double>(result.n_marched);
  state_.n_summed_rays = kFade * state_.n_summed_rays + static_cast<double>(result.n_rays);
  if (state_.n_summed_rays <= 0) return;
  double wanted = kMaxGrowth * state_.n_rays;
  if (state_.n_trained > 0) {
    wanted = std::min(wanted, target_samples * state_.n_summed_rays / state_.n_trained);
  }
  if (state_.n_marched > 0) {
    wanted = std::min(wanted, double{kMarchedPerTarget} * target_samples * state_.n_summed_rays /
                                  state_.n_marched);
  }
  state_.n_rays = Clamped(wanted);
}

}  // namespace nerf
