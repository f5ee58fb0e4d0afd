#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

struct Job;

// A kind of work. Job has what all kinds share: states, lease, events, cancel, retention. To add a
// kind: its enumerator and name here, its spec and outcome as members of Job with their codec in
// server/store/record_codec.cc, and its cases in the functions below. Everything else in
// server/queue calls these functions and does not know the kinds.
enum class JobKind { kTraining, kRender, kPose, kExport };

// "TRAINING", "RENDER", "POSE", "EXPORT".
std::string_view JobKindName(JobKind kind);
absl::StatusOr<JobKind> ParseJobKind(std::string_view name);

// The resource name of a job of that kind, and the inverse, as in resource_key.h.
std::string JobName(const ResourceKey& key, JobKind kind);
absl::StatusOr<ResourceKey> ParseJobName(std::string_view field, std::string_view name,
                                         JobKind kind);
// The kind of a job that is named so; kTraining for any other text.
JobKind KindOfJobName(std::string_view name);

// Whether an attempt begins from the start, since nothing of an earlier one is kept.
bool StartsOver(JobKind kind);

// Number of parts of the job, each with a deadline of its own. A render job's have leases of their
// own; those of a training are the ranks of its gang, which have one lease together. 1 for a
// training by one worker, a pose and an export job.
uint32_t PartsOf(const Job& job);

// The capability that a worker needs for the job: for training the method, or that of merging
// (any_training.h); for a render job that of its next part (render_work.h); for a pose job that of
// pose_spec.h; for an export job that of export_spec.h.
std::string_view CapabilityOf(const Job& job);

// Whether the job has work that is waiting for a worker.
bool WantsWorker(const Job& job);

// Every blob that the job refers to, which the collector then keeps: results while the job exists,
// inputs until it is final.
std::vector<BlobRef> BlobsOf(const Job& job);

}  // namespace nerf
