#include "server/rpc/convert/render_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/camera_matrix.h"
#include "engine/config/view_limits.h"
#include "engine/config/view_style_check.h"
#include "engine/messages/crop_box.h"
#include "server/queue/jobs/model_source.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

constexpr size_t kMaxReplyBytes = (size_t{64} << 20) + 4096;  // of images, and the fields

void CheckCameraFields(const v1::Camera& camera, RequestCheck& check) {
  const auto require_side = [&](std::string_view field, uint32_t side) {
    check.Require(side >= 1 && side <= kMaxViewSide, field,
                  fmt::format("must be 1 to {}", kMaxViewSide));
  };
  require_side("camera.width", camera.width());
  require_side("camera.height", camera.height());
  check.Require(std::isfinite(camera.fl_x()) && camera.fl_x() > 0, "camera.fl_x",
                "must be a number above 0");
  check.Require(std::isfinite(camera.fl_y()) && camera.fl_y() >= 0, "camera.fl_y",
                "must be a number above 0, or 0 for fl_x");
  const auto require_finite = [&](std::string_view field, double value) {
    check.Require(std::isfinite(value), field, "must be a finite number");
  };
  require_finite("camera.cx", camera.cx());
  require_finite("camera.cy", camera.cy());
  require_finite("camera.k1", camera.k1());
  require_finite("camera.k2", camera.k2());
  require_finite("camera.k3", camera.k3());
  require_finite("camera.p1", camera.p1());
  require_finite("camera.p2", camera.p2());
  check.Require(camera.time() >= 0 && camera.time() <= 1, "camera.time", "must be 0 to 1");
  check.Require(v1::LensModel_IsValid(camera.lens()), "camera.lens",
                "is not a lens known to this server");
  CheckCameraMatrix("camera.transform_matrix", camera.transform_matrix(), check);
}

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

// Checks the number of pixels; the sides were checked before. For an orbit the engine checks it,
// because only the engine knows the shape of its views.
void CheckSize(const v1::RenderImageRequest& request, RequestCheck& check) {
  const auto is_side = [](uint32_t side) { return side >= 1 && side <= kMaxViewSide; };
  const v1::Camera& camera = request.camera();
  const bool shape_known = is_side(camera.width()) && is_side(camera.height());
  const bool both_asked = is_side(request.width()) && is_side(request.height());
  const bool too_large = request.width() > kMaxViewSide || request.height() > kMaxViewSide;
  if (too_large || !(shape_known || both_asked)) return;
  const absl::Status status =
      ResolveViewSize({camera.width(), camera.height()}, {request.width(), request.height()})
          .status();
  const std::string_view field = request.width() > 0    ? "width"
                                 : request.height() > 0 ? "height"
                                                        : "camera.width";
  check.Require(status.ok(), field, {status.message().data(), status.message().size()});
}

}  // namespace

void CheckCameraMatrix(std::string_view field,
                       const google::protobuf::RepeatedField<double>& matrix, RequestCheck& check) {
  check.Require(matrix.size() == 16, field,
                fmt::format("must be 16 numbers, not {}", matrix.size()));
  bool are_numbers = matrix.size() == 16;
  for (int i = 0; i < std::min(matrix.size(), 16); ++i) {
    const bool is_number = std::abs(matrix[i]) <= kMaxCoordinate;
    check.Require(is_number, fmt::format("{}[{}]", field, i), "must be a finite number up to 1e9");
    are_numbers = are_numbers && is_number;
  }
  if (!are_numbers) return;
  double columns[3][4], scale = 0;
  std::copy(matrix.begin(), matrix.begin() + 12, &columns[0][0]);
  const bool is_rotation = IsScaledRotation(columns, &scale);
  check.Require(is_rotation, field,
                "the first 3 columns are not a rotation (zero, mirrored, sheared or unequally "
                "scaled)");
  bool has_bottom_row = true;
  for (int i = 12; i < 16; ++i) {
    has_bottom_row =
        has_bottom_row && std::abs(matrix[i] - (i == 15 ? 1 : 0)) <= kMaxBottomRowError;
  }
  check.Require(!is_rotation || has_bottom_row, field, "the last row must be 0 0 0 1");
}

absl::Status CheckCamera(const v1::Camera& camera) {
  RequestCheck check;
  CheckCameraFields(camera, check);
  return check.Result();
}

void CheckCropBox(std::string_view field, const v1::CropBox& proto, RequestCheck& check) {
  ReadCropBox(field, proto, &check);
}

void CheckViewStyle(std::string_view prefix, const v1::ViewStyle& proto, ViewSize asked,
                    RequestCheck& check) {
  const std::string within = fmt::format("{}style.", prefix);
  ViewStyle style;
  if (!proto.background().empty()) {
    const auto& color = proto.background();
    check.Require(color.size() == 3, within + "background", "must be 3 numbers");
    if (color.size() == 3) {
      style.background = {static_cast<float>(color[0]), static_cast<float>(color[1]),
                          static_cast<float>(color[2])};
    }
  }
  if (proto.has_crop()) CheckCropBox(within + "crop", proto.crop(), check);
  check.Require(!proto.has_crop() || !proto.whole(), within + "whole", "has no effect with crop");
  if (proto.has_panorama()) {
    const bool is_known = v1::Panorama::Stereo_IsValid(proto.panorama().stereo());
    check.Require(is_known, within + "panorama.stereo", "is not a layout known to this server");
    if (is_known) {
      const auto stereo = static_cast<StereoLayout>(proto.panorama().stereo());
      style.panorama = {stereo, proto.panorama().eye_distance()};
      const absl::Status size = PanoramaSize(stereo, asked).status();
      check.Require(size.ok(), fmt::format("{}width", prefix),
                    {size.message().data(), size.message().size()});
    }
  }
  check.Add(ProblemsOf(style), fmt::format("{}style", prefix));
}

void CheckColorChannels(std::string_view field,
                        const google::protobuf::RepeatedField<int>& channels, RequestCheck& check) {
  const auto has = [&](int channel) {
    return std::find(channels.begin(), channels.end(), channel) != channels.end();
  };
  check.Require(!has(v1::RGB) || !has(v1::RGBA), field, "RGBA is in place of RGB");
}

std::string_view FeatureOfViews(const v1::ViewStyle& style,
                                const google::protobuf::RepeatedField<int>& channels,
                                v1::ImageFormat format) {
  const bool has_alpha = std::find(channels.begin(), channels.end(), v1::RGBA) != channels.end();
  const bool has_style = !style.background().empty() || style.has_crop() || style.has_panorama();
  return has_alpha || has_style || format == v1::EXR ? kStyleFeature : "";
}

absl::Status CheckView(const v1::RenderImageRequest& request) {
  RequestCheck check;
  CheckSourceName(request, check);
  check.Require(request.has_camera() != request.has_orbit(), "camera",
                "exactly one of camera and orbit must be given");
  if (request.has_camera()) CheckCameraFields(request.camera(), check);
  if (request.has_orbit()) {
    const v1::OrbitView& orbit = request.orbit();
    check.Require(orbit.count() >= 1 && orbit.count() <= uint32_t{kMaxOrbitViews}, "orbit.count",
                  fmt::format("must be 1 to {}", kMaxOrbitViews));
    check.Require(orbit.index() < std::max(orbit.count(), 1u), "orbit.index",
                  "must be below count");
    check.Require(v1::PathKind_IsValid(orbit.path()), "orbit.path",
                  "is not a path known to this server");
  }
  check.Require(request.width() <= kMaxViewSide, "width",
                fmt::format("must be at most {}", kMaxViewSide));
  check.Require(request.height() <= kMaxViewSide, "height",
                fmt::format("must be at most {}", kMaxViewSide));
  if (!request.style().has_panorama()) CheckSize(request, check);
  CheckViewStyle("", request.style(), {request.width(), request.height()}, check);
  CheckColorChannels("channels", request.channels(), check);
  check.Require(v1::ImageFormat_IsValid(request.format()), "format",
                "is not a format known to this server");
  std::set<int> seen;
  for (int i = 0; i < request.channels_size() && i < 16; ++i) {
    const std::string field = fmt::format("channels[{}]", i);
    const v1::RenderChannel channel = request.channels(i);
    check.Require(v1::RenderChannel_IsValid(channel) && channel != v1::RENDER_CHANNEL_UNSPECIFIED,
                  field, "must be RGB, RGBA, DEPTH or OPACITY");
    check.Require(seen.insert(channel).second, field, "is asked for twice");
    check.Require(channel != v1::DEPTH || request.format() != v1::JPEG, field,
                  "DEPTH has 16 bits, which JPEG cannot hold");
    check.Require(channel != v1::RGBA || request.format() != v1::JPEG, field,
                  "RGBA has alpha, which JPEG cannot hold");
  }
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
