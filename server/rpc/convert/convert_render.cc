#include "server/rpc/convert/convert_render.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/local_origin.h"
#include "engine/base/messages/pose_message.h"
#include "engine/base/messages/render_check.h"
#include "engine/views/path/keyframe_path.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/kind_messages.h"
#include "server/rpc/convert/render_request.h"

namespace nerf {
namespace {

v1::ImageFormat FormatOf(const v1::RenderSpec& spec) {
  return spec.format() == v1::EXR ? v1::EXR : v1::PNG;
}

// camera: relative to the origin.
v1::Camera CameraOf(const PathCamera& camera, const Vec3d& origin, uint32_t width,
                    uint32_t height) {
  v1::Camera proto;
  proto.set_width(width);
  proto.set_height(height);
  const double half_angle = camera.fov_degrees * std::numbers::pi / 360;
  proto.set_fl_x(0.5 * height / std::tan(half_angle));
  WritePose(camera.camera_to_world, origin, proto.mutable_transform_matrix());
  return proto;
}

std::vector<v1::Camera> ExpandKeyframePath(const v1::KeyframePath& path, uint32_t width,
                                           uint32_t height) {
  std::vector<Vec3d> places;
  for (const v1::Keyframe& proto : path.keyframes())
    places.push_back(PlaceOf(proto.transform_matrix()));
  const Vec3d origin = LocalOrigin(places);
  std::vector<PathCamera> keyframes;
  for (const v1::Keyframe& proto : path.keyframes()) {
    PathCamera& keyframe = keyframes.emplace_back();
    keyframe.camera_to_world = ReadPose(proto.transform_matrix(), origin);
    keyframe.fov_degrees = static_cast<float>(proto.fov_degrees());
  }
  std::vector<v1::Camera> cameras;
  for (const PathCamera& camera :
       ExpandKeyframes(keyframes, static_cast<int>(path.frames()), path.loop())) {
    cameras.push_back(CameraOf(camera, origin, width, height));
  }
  return cameras;
}

void AddFrames(const LeaseGrant& grant, v1::FrameRange* range) {
  const v1::RenderSpec& requested = *grant.job.render;
  *range->mutable_file() = grant.job.model.blob();
  const v1::CameraPath& path = requested.path();
  std::vector<v1::Camera> expanded;
  if (path.has_keyframes()) {
    expanded = ExpandKeyframePath(path.keyframes(), requested.width(), requested.height());
  }
  const FrameSpan span = FramesOfPart(grant.job, grant.lease.part);
  for (uint32_t i = span.begin; i < span.end; ++i) {
    if (!grant.job.render_work.frames[i].images.empty()) continue;
    v1::FrameTask* frame = range->add_frames();
    frame->set_index(i);
    v1::RenderImageRequest* view = frame->mutable_view();
    view->set_width(requested.width());
    view->set_height(requested.height());
    *view->mutable_channels() = requested.channels();
    view->set_format(FormatOf(requested));
    if (requested.has_style()) *view->mutable_style() = requested.style();
    if (path.has_scene()) {
      view->mutable_orbit()->set_index(i);
      view->mutable_orbit()->set_count(path.scene().frames());
      view->mutable_orbit()->set_path(path.scene().path());
    } else {
      *view->mutable_camera() =
          path.has_keyframes() ? expanded[i] : path.cameras().cameras(static_cast<int>(i));
    }
  }
}

absl::Status ParseRender(const v1::CreateJobRequest& request, RequestCheck& check, JobSpec* spec) {
  const v1::RenderSpec& render = request.job().render();
  ParseModelSource("job.render", render, &spec->model, check);
  check.Add(ProblemsOf(render), "job.render");
  NERF_RETURN_IF_ERROR(check.Result());
  spec->render = WithDefaults(render);
  const v1::ViewStyle& style = spec->render.style();
  spec->model.feature = FeatureOfViews(style, spec->render.channels(), FormatOf(spec->render));
  if (!style.has_crop() && !style.whole()) {
    spec->model.crop_feature = spec->model.feature.empty() ? kStyleFeature : spec->model.feature;
  }
  return absl::OkStatus();
}

void FillRenderOrder(const LeaseGrant& grant, v1::DesiredJob* order) {
  order->set_action(v1::DesiredJob::RENDER);
  if (!IsMoviePart(grant.job, grant.lease.part)) {
    AddFrames(grant, order->mutable_frames());
    return;
  }
  const v1::RenderSpec& requested = *grant.job.render;
  v1::MovieTask* movie = order->mutable_movie();
  movie->set_fps(requested.fps());
  movie->set_alpha(!requested.channels().empty() && requested.channels(0) == v1::RGBA);
  if (requested.style().has_panorama()) *movie->mutable_panorama() = requested.style().panorama();
  for (const FrameRecord& frame : grant.job.render_work.frames) {
    if (!frame.images.empty()) *movie->add_frames() = ToProto(frame.images.front());
  }
}

// Its frames are committed, not reported.
absl::StatusOr<internal::JobProgress> RenderProgressOf(const v1::JobReport& /*report*/) {
  return internal::JobProgress();
}

}  // namespace

absl::StatusOr<std::vector<v1::Camera>> ExpandPath(std::string_view field,
                                                   const v1::CameraPath& path, uint32_t width,
                                                   uint32_t height) {
  RequestCheck check;
  check.Add(ProblemsOf(path), field);
  check.Add(ProblemsOfSize(width, height));
  check.Require(!path.has_scene(), field, "of the scene is laid by the engine: use RenderImage");
  NERF_RETURN_IF_ERROR(check.Result());
  if (path.has_keyframes()) return ExpandKeyframePath(path.keyframes(), width, height);
  return std::vector<v1::Camera>(path.cameras().cameras().begin(), path.cameras().cameras().end());
}

const KindMessages kRenderMessages = {ParseRender, FillRenderOrder, RenderProgressOf};

absl::StatusOr<CommittedFrames> FromProto(const v1::CommitFramesRequest& request) {
  RequestCheck check;
  CommittedFrames result;
  result.lease.job = TakeOr(ParseJobName("job", request.job()), check);
  result.lease.worker = request.worker_id();
  result.lease.epoch = request.lease_epoch();
  result.lease.part = request.part();
  for (const v1::CommitFramesRequest::Frame& proto : request.frames()) {
    FrameRecord frame;
    for (const v1::BlobRef& image : proto.images()) {
      frame.images.push_back(TakeOr(FromProto("frames.images", image), check));
    }
    check.Require(!frame.images.empty(), "frames.images", "must not be empty");
    frame.far = std::isfinite(proto.far()) ? proto.far() : 0;
    result.frames.emplace_back(proto.index(), std::move(frame));
  }
  if (request.has_movie()) result.movie = TakeOr(FromProto("movie", request.movie()), check);
  NERF_RETURN_IF_ERROR(check.Result());
  return result;
}

}  // namespace nerf
