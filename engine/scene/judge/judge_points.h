#pragma once

#include <optional>
#include <vector>

#include "engine/scene/judge/verdict.h"
#include "engine/scene/listed_views.h"

namespace nerf {

// How far the points of a model lie from where a picture shows them.
struct PointError {
  double median_pixels = 0;  // of the size that the intrinsics are for
  double of_diagonal = 0;    // the same over the picture's diagonal
};

// Whether the camera's pose is right, as far as its points tell.
bool AgreesWithPoints(const PointError& error);

// Of each view; nullopt where the data set does not say what pictures show, or says it in pixels of
// another size. Angles between rays count, so points behind a camera are far off for every lens.
std::vector<std::optional<PointError>> PointErrors(const std::vector<ListedView>& views);

// Compares cameras with the points that they show. Refuses a model whose cameras contradict its
// points, and warns of less. Returns which views contradict them while the others do not: they are
// to be left out.
std::vector<bool> JudgePoints(const ListedViews& listed,
                              const std::vector<std::optional<PointError>>& errors,
                              Verdicts* verdicts);

}  // namespace nerf
