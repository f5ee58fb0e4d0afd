#include "server/rpc/job_converter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/queue/queue_wait.h"
#include "server/rpc/convert_common.h"
#include "server/rpc/convert_job.h"
#include "server/rpc/convert_render.h"

namespace nerf {

const std::vector<WorkerRecord>& JobConverter::Workers() {
  if (!workers_.has_value()) workers_ = services_.workers.List();
  return *workers_;
}

size_t JobConverter::CountAhead(const Job& job) {
  // Most responses hold one job, for which a copy of the queue would be slow.
  if (!std::exchange(has_counted_, true)) return services_.queue.QueuedAhead(job);
  if (!queued_.has_value()) queued_ = services_.queue.QueuedByCapability();
  const std::vector<QueueRank>& same =
      (*queued_)[{job.key.project, std::string(CapabilityOf(job))}];
  const QueueRank own{job.priority, job.create_sequence};
  return static_cast<size_t>(std::lower_bound(same.begin(), same.end(), own) - same.begin());
}

bool JobConverter::IsQueued(const Job& job) {
  Workers();  // read before the queue, so that a grant in between is noticed
  return services_.queue.IsQueued(job);
}

template <typename Proto>
void JobConverter::SetPartsWait(const Job& job, Proto* proto) {
  Job part = job;
  part.parts.clear();
  part.part_of = job.key.id;
  part.training.workers = WorkerCount();
  std::optional<QueueWait> wait =
      ExplainWait(part, Workers(), absl::ZeroDuration(), [] { return size_t{0}; });
  // Busy workers may have its parts.
  if (!wait.has_value() || wait->reason == kWaitWorkersBusy) {
    wait = QueueWait{kWaitParts, fmt::format("{} of its {} parts are trained",
                                             services_.queue.PartsDone(job), job.parts.size())};
  }
  proto->mutable_wait()->set_reason(std::string(wait->reason));
  proto->mutable_wait()->set_message(wait->message);
}

template <typename Proto>
void JobConverter::SetWait(const Job& job, Proto* proto) {
  if (job.state != JobState::kQueued) return;
  if (WaitsForParts(job)) return SetPartsWait(job, proto);
  std::optional<QueueWait> wait =
      ExplainWait(job, Workers(), services_.queue.WaitsAside(job), [&] { return CountAhead(job); });
  if (std::string why = services_.queue.WaitsForQuota(job); !why.empty()) {
    wait = QueueWait{kWaitQuota, std::move(why)};
  }
  if (!wait.has_value()) return;
  proto->mutable_wait()->set_reason(std::string(wait->reason));
  proto->mutable_wait()->set_message(wait->message);
}

v1::TrainingJob JobConverter::ToProto(const Job& job) {
  v1::TrainingJob proto = nerf::ToProto(job);
  for (v1::Member& member : *proto.mutable_members()) {
    for (const WorkerRecord& worker : Workers()) {
      if (WorkerName(worker.description.id) == member.worker()) {
        member.set_host(worker.description.host);
      }
    }
  }
  SetWait(job, &proto);
  return proto;
}

v1::RenderJob JobConverter::ToRenderProto(const Job& job, bool whole) {
  v1::RenderJob proto = ToRenderJob(job, whole);
  SetWait(job, &proto);
  return proto;
}

}  // namespace nerf
