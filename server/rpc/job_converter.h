#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nerf/v1/render_job_service.pb.h"
#include "nerf/v1/training_service.pb.h"
#include "server/queue/job.h"
#include "server/queue/queue_rank.h"
#include "server/queue/worker_table.h"
#include "server/rpc/service_context.h"

namespace nerf {

// Converts jobs for clients, including the reason why a queued job waits. Reads the workers at the
// first queued job and the whole queue at the second, once for all jobs of a response. Not
// thread-safe; use one per response.
class JobConverter {
 public:
  explicit JobConverter(const ServiceContext& services) : services_(services) {}
  // The job as it is now, or as it would be if it were created.
  v1::TrainingJob ToProto(const Job& job);
  // The same of a render job. With `whole` its path and frames too.
  v1::RenderJob ToRenderProto(const Job& job, bool whole);
  // True if the job is queued now. `job` may be from an older event.
  bool IsQueued(const Job& job);

 private:
  const std::vector<WorkerRecord>& Workers();
  size_t CountAhead(const Job& job);
  // Sets `wait` of a queued job.
  template <typename Proto>
  void SetWait(const Job& job, Proto* proto);
  // The same of a job that waits for its parts.
  template <typename Proto>
  void SetPartsWait(const Job& job, Proto* proto);

  const ServiceContext& services_;
  std::optional<std::vector<WorkerRecord>> workers_;
  bool has_counted_ = false;
  // By project and method.
  std::optional<std::map<std::pair<std::string, std::string>, std::vector<QueueRank>>> queued_;
};

}  // namespace nerf
