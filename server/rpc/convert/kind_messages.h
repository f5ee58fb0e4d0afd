#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// How the requests and orders of a kind of job are read and written; convert_KIND.cc has its
// functions. KindPolicy is what the queue knows of the kind, KindRecord how a job is written.
struct KindMessages {
  // Reads the kind's spec. `spec` has what all kinds share, whose problems are in `check`. Returns
  // all problems, or another error.
  absl::Status (*parse)(const v1::CreateJobRequest& request, RequestCheck& check, JobSpec* spec);
  // Adds the kind's work to the order for a worker.
  void (*fill_order)(const LeaseGrant& grant, v1::DesiredJob* order);
  // The progress in a report of RUNNING; empty where there is none.
  absl::StatusOr<internal::JobProgress> (*parse_progress)(const v1::JobReport& report);
  // Adds what follows of files that are still to be made; null: nothing does.
  void (*add_sizes)(const Job& job, v1::Job* proto) = nullptr;
};

extern const KindMessages kTrainingMessages, kRenderMessages, kPoseMessages, kExportMessages;

const KindMessages& MessagesOf(JobKind kind);

}  // namespace nerf
