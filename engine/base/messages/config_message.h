#pragma once

#include <string_view>

#include "common/problems.h"
#include "engine/base/config/train_config.h"
#include "nerf/v1/training_job.pb.h"

namespace nerf {

// The config that a message asks for, with every default filled in; its `init` is not read. Adds
// all problems to `problems`, with `field` as the message's path; what is wrong is then the
// default.
TrainConfig ReadConfig(std::string_view field, const v1::TrainingConfig& message,
                       Problems* problems);

// The config with every setting, without `init`.
v1::TrainingConfig ToMessage(const TrainConfig& config);

}  // namespace nerf
