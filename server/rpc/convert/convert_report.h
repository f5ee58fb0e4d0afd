#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "nerf/v1/training_job.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/lease_table.h"

namespace nerf {

// What workers report of their jobs.

// Non-finite numbers are cleared, because JSON cannot hold them; figures beyond kMaxFigures are
// dropped.
absl::StatusOr<v1::Progress> ReportedProgress(const v1::Progress& reported);
// The failure that a worker reports, with long lists and texts cut.
JobError ToJobError(const v1::JobReport& report);
absl::StatusOr<CheckpointRecord> FromProto(const v1::CommitCheckpointRequest& request);
// The lease that a message names, without the worker. `field` is that of the message in the
// request, empty for the request itself. InvalidArgument FIELD_INVALID.
absl::StatusOr<LeaseRef> ParseLease(std::string_view field, const v1::JobReport& report);
absl::StatusOr<LeaseRef> ParseLease(std::string_view field, std::string_view job,
                                    uint64_t lease_epoch, uint32_t part = 0);

}  // namespace nerf
