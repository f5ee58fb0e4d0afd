#pragma once

#include <cstddef>
#include <vector>

#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/pose_eta.h"

namespace nerf {

// What stages of a search cost (PlannedStage): about a thread's seconds. The ratios matter: the
// search corrects the rest (PoseEta).

// Of features of the photographs that are used, reduced to `side` pixels; `doubled`: of pictures of
// twice that size.
PlannedStage ExtractCost(const std::vector<Photo>& photos, int side, bool doubled);
// Of so many pairs of photographs with so many features each.
PlannedStage MatchCost(double n_pairs, int features);
PlannedStage PlaceCost(size_t n_photos);
PlannedStage RefineCost(size_t n_photos);

}  // namespace nerf
