#pragma once

#include "engine/scene/scene.h"

namespace nerf {

// A striped ball of radius 0.6 in front of nothing, seen from all around: pictures with alpha that
// are computed, not read. For benches and tests. n_train and n_test are at least 1 and 0.
Scene SyntheticBallScene(int n_train, int n_test, int image_size);

}  // namespace nerf
