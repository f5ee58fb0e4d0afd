#pragma once

#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job.h"

namespace nerf {

// The job as its readers see it, without `wait`, the hosts of a gang and the sizes of files that
// are to be made: with `whole` its path, frames and files to pose, too.
v1::Job JobMessage(const Job& job, bool whole);

// What all kinds share, without what columns of the store have (name, state, workers) and etag.
void FillJob(const Job& job, v1::Job* proto);

v1::Checkpoint ToProto(const ResourceKey& job, const CheckpointRecord& checkpoint);
// With what `init` stands for.
v1::TrainingConfig EffectiveConfigOf(const TrainingSpec& training);

}  // namespace nerf
