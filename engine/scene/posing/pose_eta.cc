#include "engine/scene/posing/pose_eta.h"

#include <algorithm>
#include <utility>

namespace nerf {
namespace {

// Below these a stage says nothing of a speed.
constexpr double kMinShare = 0.05, kMinSeconds = 1;

}  // namespace

void PoseEta::Begin(const PlannedStage& stage, std::vector<PlannedStage> later, double now) {
  if (stage_.cost > 0) {
    Speed& speed = speeds_[stage_.work];
    speed.seconds += now - begin_;
    speed.cost += stage_.cost;
  }
  stage_ = stage;
  later_ = std::move(later);
  begin_ = now;
}

double PoseEta::SecondsOf(PoseWork work, const std::map<PoseWork, Speed>& speeds) const {
  if (const auto own = speeds.find(work); own != speeds.end()) {
    return own->second.seconds / own->second.cost;
  }
  Speed all;
  for (const auto& [kind, speed] : speeds) {
    all.seconds += speed.seconds;
    all.cost += speed.cost;
  }
  return all.cost > 0 && all.seconds >= kMinSeconds ? all.seconds / all.cost : 1.0 / n_threads_;
}

double PoseEta::Expected(const std::vector<PlannedStage>& stages) const {
  double seconds = 0;
  for (const PlannedStage& stage : stages) seconds += stage.cost * SecondsOf(stage.work, speeds_);
  return seconds;
}

double PoseEta::Remaining(double share, double now) const {
  if (stage_.cost <= 0) return 0;
  const double spent = std::max(0.0, now - begin_);
  share = std::clamp(share, 0.0, 1.0);
  std::map<PoseWork, Speed> speeds = speeds_;
  double left = std::max(0.0, stage_.cost * SecondsOf(stage_.work, speeds) - spent);
  if (share >= kMinShare && spent >= kMinSeconds) {
    left = spent * (1 - share) / share;
    Speed& speed = speeds[stage_.work];
    speed.seconds += spent;
    speed.cost += share * stage_.cost;
  }
  for (const PlannedStage& stage : later_) left += stage.cost * SecondsOf(stage.work, speeds);
  return left;
}

}  // namespace nerf
