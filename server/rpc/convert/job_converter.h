#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_row.h"
#include "server/queue/leases/queue_wait.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/queue_place.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Adds the bytes of a message to a repeated field of `response`: an unknown field with its number
// is sent as that field is, without a message in between.
void AddBytes(int field_number, std::string bytes, google::protobuf::Message* response);

// Converts jobs for clients, including the reason why a queued job waits. Reads the workers at the
// first queued job, once for all jobs of a response. Not thread-safe; use one per response.
class JobConverter {
 public:
  explicit JobConverter(const ServiceContext& services) : services_(services) {}
  // The job as it is now, or as it would be if it were created: with `whole` its path, frames and
  // files to pose, too.
  v1::Job ToProto(const Job& job, bool whole);
  // The bytes of a v1::Job. All readers of a row share its conversion; only `wait` and the
  // hosts of a gang depend on more than the job.
  std::string ToBytes(const JobRow& row, const std::optional<QueueWait>& wait);
  // True if the job is queued now. `job` may be from an older event.
  bool IsQueued(const Job& job);
  // Why it waits; nullopt if it does not.
  std::optional<QueueWait> WaitOf(const Job& job, const QueuePlace& place);

 private:
  const std::vector<WorkerRecord>& Workers();
  // The same of a job that waits for its parts.
  std::optional<QueueWait> PartsWait(const Job& job);
  // The same of a training that waits for `poses`, a pose job.
  QueueWait PosesWait(const Job& job, const std::optional<Job>& poses);
  // Why it waits now.
  std::optional<QueueWait> WaitOf(const Job& job);

  const ServiceContext& services_;
  WorkerList workers_;  // null until it is read
};

}  // namespace nerf
