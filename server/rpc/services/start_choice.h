#pragma once

#include "engine/base/config/train_config.h"
#include "server/queue/jobs/start_choice.h"

namespace nerf {

// The best fitting model for a training with this config, ranked as nerf-engine ranks files
// (engine/base/config/start_rank.h). Fitting are those whose tensors, settings and boxes are known
// to suit: the server knows the settings of a model through its job, and the number of boxes where
// both say it, or where both scenes get the same (the same files, or the same kind of layout). Of
// equals the newest.
StartAnswer ChooseStart(const TrainConfig& wanted, const StartQuestion& question);

}  // namespace nerf
