#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/progress.h"

namespace nerf {

// Runs `nerf-engine train` with these arguments in a process of its own, whose memory is that of
// this training alone. environment: variables that are added. on_line: gets its lines of --json
// while it works, if that is not empty. Errors: Aborted with what the process said; Cancelled after
// a stop.
absl::StatusOr<TrainSummary> TrainInProcess(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::function<void(const nlohmann::json&)>& on_line, const std::stop_token& stop);

}  // namespace nerf
