#include "server/rpc/job_converter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/queue/queue_wait.h"
#include "server/rpc/convert_job.h"

namespace nerf {

void JobConverter::Look() {
  if (std::exchange(looked_, true)) return;
  workers_ = services_.workers.List();
  queued_ = services_.queue.QueuedJobs();
}

bool JobConverter::IsQueued(const Job& job) {
  Look();
  return std::binary_search(queued_.begin(), queued_.end(), job.create_sequence);
}

v1::TrainingJob JobConverter::ToProto(const Job& job) {
  v1::TrainingJob proto = nerf::ToProto(job);
  if (job.state != JobState::kQueued) return proto;
  Look();
  const auto place = std::lower_bound(queued_.begin(), queued_.end(), job.create_sequence);
  const std::optional<QueueWait> wait =
      ExplainWait(job, workers_, static_cast<size_t>(place - queued_.begin()));
  if (!wait.has_value()) return proto;
  proto.mutable_wait()->set_reason(std::string(wait->reason));
  proto.mutable_wait()->set_message(wait->message);
  return proto;
}

}  // namespace nerf
