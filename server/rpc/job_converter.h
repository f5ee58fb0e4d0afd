#pragma once

#include <cstdint>
#include <vector>

#include "nerf/v1/training_service.pb.h"
#include "server/queue/job.h"
#include "server/queue/worker_table.h"
#include "server/rpc/service_context.h"

namespace nerf {

// Converts jobs for clients, who also get to know what a queued one waits for. Workers and queue
// are read when the first queued job comes, once for all that follow. Not thread-safe; meant for
// one answer.
class JobConverter {
 public:
  explicit JobConverter(const ServiceContext& services) : services_(services) {}
  // The job as it is now, or as it would be if it were created.
  v1::TrainingJob ToProto(const Job& job);
  // Whether it is queued now: at an event that is told later it was, and may be no more.
  bool IsQueued(const Job& job);

 private:
  void Look();

  const ServiceContext& services_;
  bool looked_ = false;
  std::vector<WorkerRecord> workers_;
  std::vector<uint64_t> queued_;
};

}  // namespace nerf
