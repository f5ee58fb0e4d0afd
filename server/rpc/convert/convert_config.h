#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nerf/v1/training_job.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// The model or checkpoint to initialize from; nullopt for none. Its blob is not looked up. `field`
// is the path of the config in the request. Adds all problems to `check`.
std::optional<InitReference> ParseInit(std::string_view field, const v1::TrainingConfig& proto,
                                       RequestCheck& check);

}  // namespace nerf
