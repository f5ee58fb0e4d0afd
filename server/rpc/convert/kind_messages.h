#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// How the messages of a kind of job are written and read; convert_KIND.cc has its functions.
// KindPolicy is what the queue knows of the kind.
struct KindMessages {
  v1::Job::SpecCase spec;
  // Sets the kind's spec and status: without `whole` no path, frames and files to pose.
  void (*fill)(const Job& job, bool whole, v1::Job* proto);
  // Reads the kind's spec. `spec` has what all kinds share, whose problems are in `check`. Returns
  // all problems, or another error.
  absl::Status (*parse)(const v1::CreateJobRequest& request, RequestCheck& check, JobSpec* spec);
  // Adds the kind's work to the order for a worker.
  void (*fill_order)(const LeaseGrant& grant, v1::DesiredJob* order);
  // The progress in a report of RUNNING; nullopt where there is none.
  absl::StatusOr<std::optional<JobProgress>> (*parse_progress)(const v1::JobReport& report);
};

extern const KindMessages kTrainingMessages, kRenderMessages, kPoseMessages, kExportMessages;

const KindMessages& MessagesOf(JobKind kind);
// nullopt without a spec.
std::optional<JobKind> KindOfSpec(const v1::Job& job);

}  // namespace nerf
