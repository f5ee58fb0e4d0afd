#pragma once

#include <span>
#include <string>

#include "engine/base/config/psnr_advice.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Why a scene is most likely not the one that a model was trained on, as the second half of a
// sentence; empty where nothing says so, and for models that do not store their photographs. The
// scene's cameras are in the model's training frame.
std::string OtherSceneText(const TrainState& model, const Scene& scene);

// What LowPsnrAdvice is given of a model and of views that were compared with photographs of the
// data set `dataset`; their cameras are in the model's training frame.
TrainedQuality ComparedQuality(const TrainState& model, std::span<const Camera> cameras,
                               double psnr, const std::string& dataset);

}  // namespace nerf
