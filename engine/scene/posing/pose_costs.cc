#include "engine/scene/posing/pose_costs.h"

#include <algorithm>

namespace nerf {
namespace {

// Seconds: of a pixel, of a pair and of each feature of it, of a photograph.
constexpr double kExtractCost = 0.25e-6, kPairCost = 0.02, kMatchCost = 20e-6;
constexpr double kPlaceCost = 0.6, kRefineCost = 0.15;

}  // namespace

PlannedStage ExtractCost(const std::vector<Photo>& photos, int side, bool doubled) {
  double pixels = 0;
  for (const Photo& photo : photos) {
    if (photo.file.empty()) continue;
    const double reduced =
        std::min(1.0, static_cast<double>(side) / std::max({photo.width, photo.height, 1}));
    pixels += reduced * reduced * photo.width * photo.height;
  }
  return {PoseWork::kExtract, pixels * (doubled ? 4 : 1) * kExtractCost};
}

PlannedStage MatchCost(double n_pairs, int features) {
  return {PoseWork::kMatch, n_pairs * (kPairCost + features * kMatchCost)};
}

PlannedStage PlaceCost(size_t n_photos) {
  return {PoseWork::kPlace, static_cast<double>(n_photos) * kPlaceCost};
}

PlannedStage RefineCost(size_t n_photos) {
  return {PoseWork::kRefine, static_cast<double>(n_photos) * kRefineCost};
}

}  // namespace nerf
