#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/config/train_config.h"
#include "nerf/v1/training_job.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// Conversions of a job's config between the API, the queue's records and the engine's settings.
// `field` is the path of the config in the request. Adds all problems to `check`.
TrainConfig ParseTrainConfig(std::string_view field, const v1::TrainingConfig& proto,
                             RequestCheck& check);
// The model or checkpoint to initialize from; nullopt for none. Its blob is not looked up.
std::optional<InitReference> ParseInit(std::string_view field, const v1::TrainingConfig& proto,
                                       RequestCheck& check);

JobConfig ToJobConfig(const TrainConfig& config);

// The config with every default filled in.
v1::TrainingConfig ToProto(const JobConfig& config, const std::optional<InitReference>& init);

}  // namespace nerf
