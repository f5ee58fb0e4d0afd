#include "server/rpc/convert/render_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/messages/render_check.h"
#include "server/queue/jobs/model_source.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

constexpr size_t kMaxReplyBytes = (size_t{64} << 20) + 4096;  // of images, and the fields

// The newest weights of a job: those in training while it runs, else its newest checkpoint.
absl::Status UseJob(const ServiceContext& services, const ResourceKey& key, BrokerRequest* request,
                    v1::CropBox* crop) {
  v1::RenderTask& task = *request->message.mutable_render();
  NERF_ASSIGN_OR_RETURN(const Job job, services.queue.Get(key));
  NERF_RETURN_IF_ERROR(RequireKind(job, TraitsOf(job).has_checkpoints, "has no weights to render"));
  *crop = job.crop;
  request->message.set_project(key.project);
  if (job.state == JobState::kRunning || job.state == JobState::kPausing) {
    request->worker = services.workers.WorkerOf(key);
    // Of a gang rank 0 alone has all weights.
    if (request->worker.has_value() && job.lease.IsGang()) {
      request->worker = std::string(job.lease.holder());
    }
    if (request->worker.has_value()) {
      task.set_job(JobName(key));
      return absl::OkStatus();
    }
  }
  if (job.checkpoints.empty()) {
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("{} is {} and has no checkpoint{}", JobName(key),
                                      JobStateName(job.state), IsFinal(job.state) ? "" : " yet")),
                      reason::kStateConflict, {{"state", std::string(JobStateName(job.state))}});
  }
  *task.mutable_file() = ToProto(job.checkpoints.back().model_blob);
  return absl::OkStatus();
}

// crop: the box that is kept with the source.
absl::Status UseSource(const ServiceContext& services, const v1::RenderImageRequest& source,
                       BrokerRequest* request, v1::CropBox* crop) {
  v1::RenderTask& task = *request->message.mutable_render();
  if (source.has_model()) {
    NERF_ASSIGN_OR_RETURN(const auto key, ParseModelName("model", source.model()));
    NERF_ASSIGN_OR_RETURN(const auto model, services.models.Get(key));
    request->message.set_project(key.project);
    *task.mutable_file() = ToProto(model.blob);
    *crop = model.crop;
    return absl::OkStatus();
  }
  if (source.has_checkpoint()) {
    NERF_ASSIGN_OR_RETURN(const auto key, ParseCheckpointName("checkpoint", source.checkpoint()));
    NERF_ASSIGN_OR_RETURN(const auto checkpoint, services.queue.GetCheckpoint(key.job, key.step));
    NERF_ASSIGN_OR_RETURN(const Job job, services.queue.Get(key.job));
    *crop = job.crop;
    request->message.set_project(key.job.project);
    *task.mutable_file() = ToProto(checkpoint.model_blob);
    return absl::OkStatus();
  }
  NERF_ASSIGN_OR_RETURN(const auto key, ParseJobName("training_job", source.training_job()));
  return UseJob(services, key, request, crop);
}

// Checks the form only, so that a bad name is reported together with a bad camera.
void CheckSourceName(const v1::RenderImageRequest& request, RequestCheck& check) {
  switch (request.source_case()) {
    case v1::RenderImageRequest::kModel:
      check.Add(ParseModelName("model", request.model()).status());
      return;
    case v1::RenderImageRequest::kCheckpoint:
      check.Add(ParseCheckpointName("checkpoint", request.checkpoint()).status());
      return;
    case v1::RenderImageRequest::kTrainingJob:
      check.Add(ParseJobName("training_job", request.training_job()).status());
      return;
    case v1::RenderImageRequest::SOURCE_NOT_SET:
      check.Require(false, "source", "must be one of model, checkpoint and training_job");
      return;
  }
}

}  // namespace

std::string_view FeatureOfViews(const v1::ViewStyle& style,
                                const google::protobuf::RepeatedField<int>& channels,
                                v1::ImageFormat format) {
  if (std::find(channels.begin(), channels.end(), v1::RGBAZ) != channels.end())
    return kRgbazFeature;
  const bool has_alpha = std::find(channels.begin(), channels.end(), v1::RGBA) != channels.end();
  const bool has_style = !style.background().empty() || style.has_crop() || style.has_panorama();
  return has_alpha || has_style || format == v1::EXR ? kStyleFeature : "";
}

absl::Status CheckView(const v1::RenderImageRequest& request) {
  RequestCheck check;
  CheckSourceName(request, check);
  check.Add(ProblemsOf(request));
  return check.Result();
}

absl::StatusOr<BrokerRequest> PrepareRender(const ServiceContext& services,
                                            const v1::RenderImageRequest& request) {
  NERF_RETURN_IF_ERROR(CheckView(request));
  BrokerRequest result;
  result.max_reply_bytes = kMaxReplyBytes;
  v1::CropBox crop;
  NERF_RETURN_IF_ERROR(UseSource(services, request, &result, &crop));
  v1::RenderImageRequest* view = result.message.mutable_render()->mutable_view();
  *view = request;
  view->clear_source();
  view->DiscardUnknownFields();
  if (HasBox(crop) && !view->style().has_crop() && !view->style().whole())
    *view->mutable_style()->mutable_crop() = std::move(crop);
  result.feature = FeatureOfViews(view->style(), view->channels(), view->format());
  return result;
}

}  // namespace nerf
