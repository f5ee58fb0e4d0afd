#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/checkpoint.h"

namespace nerf {

// Gives a training that goes on from the checkpoint at `path` a new budget: `total` counts what is
// trained already. Its schedules begin anew over what is left where they had ended, and go on where
// the rate had not begun to fall (TrainState::schedule). The budget that the checkpoint has is no
// change, whatever is spent of it.
// Errors: InvalidArgument FIELD_INVALID if `total` is no budget, if the checkpoint has spent it, or
// if it is in seconds and the checkpoint stores no time.
absl::Status SetNewTotal(const Budget& total, const std::string& path, TrainState* state);

}  // namespace nerf
