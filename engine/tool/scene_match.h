#pragma once

#include <string>

#include "engine/scene/scene.h"
#include "engine/train/checkpoint.h"

namespace nerf {

// Why a scene is most likely not the one that a model was trained on, as the second half of a
// sentence; empty where nothing says so, and for models that do not store their photographs. The
// scene's cameras are in the model's training frame.
std::string OtherSceneText(const TrainState& model, const Scene& scene);

}  // namespace nerf
