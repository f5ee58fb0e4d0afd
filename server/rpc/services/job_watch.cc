#include "server/rpc/services/job_watch.h"

#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/rpc/convert/convert_export.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/job_converter.h"

namespace nerf {
namespace {

template <typename Watch>
struct Traits;

template <>
struct Traits<TrainingWatch> {
  static constexpr char kMethod[] = "nerf.v1.TrainingService/WatchTrainingJob";
  static constexpr JobKind kKind = JobKind::kTraining;
  static auto ToProto(const WatchEvent& event) { return nerf::ToProto(event); }
  static void SetJob(JobConverter& converter, const Job& job, TrainingWatch::Response* response) {
    *response->mutable_training_job() = converter.ToProto(job);
  }
};

template <>
struct Traits<RenderWatch> {
  static constexpr char kMethod[] = "nerf.v1.RenderJobService/WatchRenderJob";
  static constexpr JobKind kKind = JobKind::kRender;
  static auto ToProto(const WatchEvent& event) { return ToRenderWatch(event); }
  static void SetJob(JobConverter& converter, const Job& job, RenderWatch::Response* response) {
    *response->mutable_render_job() = converter.ToRenderProto(job, /*whole=*/false);
  }
};

template <>
struct Traits<PoseWatch> {
  static constexpr char kMethod[] = "nerf.v1.PoseJobService/WatchPoseJob";
  static constexpr JobKind kKind = JobKind::kPose;
  static auto ToProto(const WatchEvent& event) { return ToPoseWatch(event); }
  static void SetJob(JobConverter& converter, const Job& job, PoseWatch::Response* response) {
    *response->mutable_pose_job() = converter.ToPoseProto(job, /*whole=*/false);
  }
};

template <>
struct Traits<ExportWatch> {
  static constexpr char kMethod[] = "nerf.v1.ExportJobService/WatchExportJob";
  static constexpr JobKind kKind = JobKind::kExport;
  static auto ToProto(const WatchEvent& event) { return ToExportWatch(event); }
  static void SetJob(JobConverter& converter, const Job& job, ExportWatch::Response* response) {
    *response->mutable_export_job() = converter.ToExportProto(job, /*whole=*/false);
  }
};

}  // namespace

template <typename Watch>
JobWatch<Watch>* JobWatch<Watch>::Begin(const ServiceContext& services, CallContext* context,
                                        const typename Watch::Request& request) {
  const std::shared_ptr<JobWatch> watch(new JobWatch(services, context));
  watch->Start(Traits<Watch>::kMethod, context, request,
               [watch = watch.get(), request] { return watch->Open(request); });
  return watch.get();
}

template <typename Watch>
absl::Status JobWatch<Watch>::Open(const typename Watch::Request& request) {
  NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                        ParseJobName("name", request.name(), Traits<Watch>::kKind));
  NERF_ASSIGN_OR_RETURN(auto watcher, services_.queue.Watch(key, request.resume_token(),
                                                            this->OnNews(), Traits<Watch>::kKind));
  MutexLock lock(mu_);
  watcher_ = std::move(watcher);
  return absl::OkStatus();
}

template <typename Watch>
typename JobWatch<Watch>::Next JobWatch<Watch>::Fill(bool* bookmark_due,
                                                     typename Watch::Response* response) {
  if (watcher_ == nullptr) return Next::kNothing;
  if (const std::optional<WatchEvent> event = watcher_->TryNext(); event.has_value()) {
    *response = Traits<Watch>::ToProto(*event);
    waiting_.reset();
    if (event->job.state == JobState::kQueued) waiting_ = event->job;
    last_sequence_ = response->sequence();
  } else if (watcher_->finished()) {
    return Next::kFinished;
  } else if (std::exchange(*bookmark_due, false) &&
             (!std::exchange(sent_since_bookmark_, false) || waiting_.has_value())) {
    response->Clear();
    response->set_kind(Watch::Response::BOOKMARK);
    response->set_resume_token(watcher_->Token());
    response->set_sequence(last_sequence_);
  } else {
    return Next::kNothing;
  }
  TellWait(response);  // also of a bookmark: the wait can change without an event of the job
  *bookmark_due = false;
  sent_since_bookmark_ = response->kind() != Watch::Response::BOOKMARK;
  return Next::kWrite;
}

template <typename Watch>
void JobWatch<Watch>::TellWait(typename Watch::Response* response) {
  JobConverter converter(services_);
  if (!waiting_.has_value() || !converter.IsQueued(*waiting_)) return;
  Traits<Watch>::SetJob(converter, *waiting_, response);
}

template class JobWatch<TrainingWatch>;
template class JobWatch<RenderWatch>;
template class JobWatch<PoseWatch>;
template class JobWatch<ExportWatch>;

}  // namespace nerf
