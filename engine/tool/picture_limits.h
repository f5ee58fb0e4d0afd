#pragma once

#include <string>
#include <string_view>

#include "engine/config/train_config.h"
#include "engine/scene/reduce_views.h"
#include "engine/scene/scene_reader.h"

namespace nerf {

// The longer side that training pictures are reduced to, in pixels; 0: as they are. That of the
// config, or if it is negative: such that the budget has at least a third of a sample for each
// pixel, but never below kMaxDefaultViewPixels for a picture.
int MaxSideOf(const TrainConfig& config, const SceneDescription& description,
              std::string_view device);

// "3000x4000 pixels reduced to 1152x1536"; empty where nothing was reduced.
std::string ReductionText(const Reduction& reduction);

}  // namespace nerf
