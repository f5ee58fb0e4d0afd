#pragma once

#include "engine/base/config/train_config.h"
#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/state/job_queue.h"

namespace nerf {

// The effective config of a request for a training that FromProto accepted.
TrainConfig EffectiveConfig(const v1::CreateJobRequest& request);

}  // namespace nerf
