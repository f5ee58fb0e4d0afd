#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/config/train_config.h"
#include "nerf/v1/training_service.pb.h"
#include "server/queue/job.h"
#include "server/queue/request_check.h"

namespace nerf {

// A job's config on the wire, in the queue's books and in the engine's words. `field` is the path
// of the config in the request; what is wrong goes into `check`, all of it.
TrainConfig ParseTrainConfig(std::string_view field, const v1::TrainingConfig& proto,
                             RequestCheck& check);
// What the job starts from; nullopt from scratch. Its blob is left open.
std::optional<InitReference> ParseInit(std::string_view field, const v1::TrainingConfig& proto,
                                       RequestCheck& check);

JobConfig ToJobConfig(const TrainConfig& config);

// The effective config, every default filled in.
v1::TrainingConfig ToProto(const JobConfig& config, const std::optional<InitReference>& init);

}  // namespace nerf
