#pragma once

#include "engine/scene/scene.h"

namespace nerf {

// Computed pictures of a striped ball of radius 0.6 from all sides, with a transparent background.
// For benches and tests. Requires: n_train >= 1, n_test >= 0.
Scene SyntheticBallScene(int n_train, int n_test, int image_size);

}  // namespace nerf
