#include "server/rpc/convert/job_converter.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <optional>
#include <utility>

#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/queue_wait.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_job.h"

namespace nerf {
namespace {

void SetWait(const std::optional<QueueWait>& wait, v1::Job* proto) {
  if (!wait.has_value()) return;
  proto->mutable_wait()->set_reason(std::string(wait->reason));
  proto->mutable_wait()->set_message(wait->message);
}

}  // namespace

void AddBytes(int field_number, std::string bytes, google::protobuf::Message* response) {
  *response->GetReflection()->MutableUnknownFields(response)->AddLengthDelimited(field_number) =
      std::move(bytes);
}

const std::vector<WorkerRecord>& JobConverter::Workers() {
  if (workers_ == nullptr) workers_ = services_.workers.List();
  return *workers_;
}

bool JobConverter::IsQueued(const Job& job) {
  Workers();  // read before the queue, so that a grant in between is noticed
  return services_.queue.IsQueued(job);
}

std::optional<QueueWait> JobConverter::PartsWait(const Job& job) {
  Job part = job;
  part.parts.clear();
  part.part_of = job.key.id;
  part.training.workers = WorkerCount();
  std::optional<QueueWait> wait =
      ExplainWait(part, Workers(), absl::ZeroDuration(), [] { return size_t{0}; });
  // Busy workers may have its parts.
  if (wait.has_value() && wait->reason != kWaitWorkersBusy) return wait;
  return QueueWait{kWaitParts, fmt::format("{} of its {} parts are trained",
                                           services_.queue.PartsDone(job), job.parts.size())};
}

QueueWait JobConverter::PosesWait(const Job& job, const std::optional<Job>& poses) {
  std::string text = fmt::format("pose job {}", job.training.pose_job);
  if (!poses.has_value() || IsFinal(poses->state)) return {kWaitPoses, text + " has ended"};
  text += fmt::format(" is {}", JobStateName(poses->state));
  const v1::PoseProgress& at = poses->progress.pose();
  const std::optional<QueueWait> wait =
      ExplainWait(*poses, Workers(), absl::ZeroDuration(), [] { return size_t{0}; });
  if (wait.has_value()) {
    text += ": " + wait->message;
  } else if (at.stage() > 0) {
    text += fmt::format(": {}/{} {}", at.stage(), at.stages(), at.doing());
    if (at.of() > 0) text += fmt::format(": {} of {}", at.done(), at.of());
    if (at.of() > 0 && !at.unit().empty()) text += " " + at.unit();
    if (at.eta_seconds() > 0) text += fmt::format(", about {:.0f} s left", at.eta_seconds());
  }
  return {kWaitPoses, std::move(text)};
}

std::optional<QueueWait> JobConverter::WaitOf(const Job& job, const QueuePlace& place) {
  if (job.state != JobState::kQueued) return std::nullopt;
  if (job.awaits_poses) return PosesWait(job, place.poses);
  if (WaitsForParts(job)) return PartsWait(job);
  if (!place.lack.empty()) return QueueWait{kWaitBlobs, place.lack};
  if (!place.quota.empty()) return QueueWait{kWaitQuota, place.quota};
  return ExplainWait(job, Workers(), place.aside, [&] { return place.n_ahead; });
}

std::optional<QueueWait> JobConverter::WaitOf(const Job& job) {
  if (job.state != JobState::kQueued) return std::nullopt;
  return WaitOf(job, services_.queue.PlaceOf(job));
}

v1::Job JobConverter::ToProto(const Job& job, bool whole) {
  v1::Job proto = nerf::ToProto(job, whole);
  if (IsGang(job)) {
    for (v1::Member& member : *proto.mutable_training_status()->mutable_members()) {
      for (const WorkerRecord& worker : Workers()) {
        if (WorkerName(worker.description.id) == member.worker()) {
          member.set_host(worker.description.host);
        }
      }
    }
  }
  SetWait(WaitOf(job), &proto);
  return proto;
}

std::string JobConverter::ToBytes(const JobRow& row, const std::optional<QueueWait>& wait) {
  const Job& job = row.job();
  // It names the hosts of its workers, which may change.
  if (IsGang(job)) return ToProto(job, /*whole=*/false).SerializeAsString();
  v1::Job more;
  SetWait(wait, &more);
  // Fields that follow one another are fields of one message.
  return row.Encoded([](const Job& it) {
    return nerf::ToProto(it, /*whole=*/false).SerializeAsString();
  }) + more.SerializeAsString();
}

}  // namespace nerf
