#include "server/rpc/convert/convert_render.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "common/status_macros.h"
#include "engine/config/view_limits.h"
#include "engine/path/keyframe_path.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/kind_messages.h"
#include "server/rpc/convert/render_request.h"

namespace nerf {
namespace {

constexpr int kMaxKeyframes = 1000;
constexpr double kMaxFilmFps = 240, kDefaultFilmFps = 30;
constexpr char kPath[] = "job.render.path";

// The field that FramesOf counts, within a path of some kind.
std::string_view FramesField(const v1::CameraPath& path) {
  if (path.has_cameras()) return "cameras";
  return path.has_keyframes() ? "keyframes.frames" : "scene.frames";
}

void CheckKeyframe(std::string_view field, const v1::Keyframe& keyframe, RequestCheck& check) {
  CheckCameraMatrix(fmt::format("{}.transform_matrix", field), keyframe.transform_matrix(), check);
  const double fov = keyframe.fov_degrees();
  check.Require(fov >= 0.01 && fov <= 179, fmt::format("{}.fov_degrees", field),
                "must be 0.01 to 179");
}

void CheckSize(std::string_view prefix, uint32_t width, uint32_t height, RequestCheck& check) {
  const auto require_side = [&](std::string_view name, uint32_t side) {
    check.Require(side >= 1 && side <= kMaxViewSide, fmt::format("{}{}", prefix, name),
                  fmt::format("must be 1 to {}", kMaxViewSide));
  };
  require_side("width", width);
  require_side("height", height);
  check.Require(int64_t{width} * height <= kMaxViewPixels, fmt::format("{}width", prefix),
                fmt::format("width times height must be at most {}", kMaxViewPixels));
}

// Channels, outputs, their format and frame rate.
void CheckOutputs(const v1::RenderSpec& spec, RequestCheck& check) {
  std::set<int> seen;
  for (const int channel : spec.channels()) {
    check.Require(v1::RenderChannel_IsValid(channel) && channel != v1::RENDER_CHANNEL_UNSPECIFIED,
                  "job.render.channels", "must be RGB, RGBA, DEPTH or OPACITY");
    check.Require(seen.insert(channel).second, "job.render.channels",
                  "a channel is asked for twice");
  }
  CheckColorChannels("job.render.channels", spec.channels(), check);
  CheckViewStyle("job.render.", spec.style(), {spec.width(), spec.height()}, check);
  check.Require(!spec.movie() || !spec.style().has_panorama() || spec.channels().empty() ||
                    spec.channels(0) != v1::RGBA,
                "job.render.movie",
                "of a panorama has no alpha: its WebM could not say what it is");
  check.Require(spec.images() || spec.movie(), "job.render.images",
                "must be set when movie is not: nothing else is asked for");
  check.Require(spec.fps() == 0 || (spec.fps() > 0 && spec.fps() <= kMaxFilmFps), "job.render.fps",
                fmt::format("must be above 0 and at most {}", kMaxFilmFps));
  const v1::ImageFormat format = spec.format();
  check.Require(format == v1::IMAGE_FORMAT_UNSPECIFIED || format == v1::PNG || format == v1::EXR,
                "job.render.format", "must be PNG or EXR");
  check.Require(!spec.movie() || format != v1::EXR, "job.render.movie",
                "is made of frames as PNG, not of EXR");
}

v1::ImageFormat FormatOf(const v1::RenderSpec& spec) {
  return spec.format() == v1::EXR ? v1::EXR : v1::PNG;
}

// What the client has asked for, without what only the server sets.
v1::RenderSpec Requested(const v1::RenderSpec& spec) {
  v1::RenderSpec requested;
  if (spec.has_model()) requested.set_model(spec.model());
  if (spec.has_checkpoint()) requested.set_checkpoint(spec.checkpoint());
  *requested.mutable_path() = spec.path();
  requested.set_width(spec.width());
  requested.set_height(spec.height());
  *requested.mutable_channels() = spec.channels();
  if (requested.channels().empty()) requested.add_channels(v1::RGB);
  requested.set_images(spec.images());
  requested.set_movie(spec.movie());
  requested.set_fps(spec.fps() == 0 ? kDefaultFilmFps : spec.fps());
  if (spec.has_style()) *requested.mutable_style() = spec.style();
  requested.set_format(spec.format());
  requested.DiscardUnknownFields();
  return requested;
}

v1::Camera CameraOf(const PathCamera& camera, uint32_t width, uint32_t height) {
  v1::Camera proto;
  proto.set_width(width);
  proto.set_height(height);
  const double half_angle = camera.fov_degrees * std::numbers::pi / 360;
  proto.set_fl_x(0.5 * height / std::tan(half_angle));
  for (const auto& row : camera.camera_to_world.m) {
    for (const float number : row) proto.add_transform_matrix(number);
  }
  for (const double number : {0.0, 0.0, 0.0, 1.0}) proto.add_transform_matrix(number);
  return proto;
}

std::vector<v1::Camera> ExpandKeyframePath(const v1::KeyframePath& path, uint32_t width,
                                           uint32_t height) {
  std::vector<PathCamera> keyframes;
  for (const v1::Keyframe& proto : path.keyframes()) {
    PathCamera& keyframe = keyframes.emplace_back();
    for (int i = 0; i < 12; ++i) {
      keyframe.camera_to_world.m[i / 4][i % 4] = static_cast<float>(proto.transform_matrix(i));
    }
    keyframe.fov_degrees = static_cast<float>(proto.fov_degrees());
  }
  std::vector<v1::Camera> cameras;
  for (const PathCamera& camera :
       ExpandKeyframes(keyframes, static_cast<int>(path.frames()), path.loop())) {
    cameras.push_back(CameraOf(camera, width, height));
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
  CheckCameraPath(kPath, render.path(), check);
  CheckSize("job.render.", render.width(), render.height(), check);
  CheckOutputs(render, check);
  NERF_RETURN_IF_ERROR(check.Result());
  spec->render = Requested(render);
  const v1::ViewStyle& style = spec->render.style();
  if (!style.has_crop() && !style.whole()) spec->model.crop_feature = kStyleFeature;
  spec->model.feature = FeatureOfViews(style, spec->render.channels(), FormatOf(spec->render));
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

void CheckCameraPath(std::string_view field, const v1::CameraPath& path, RequestCheck& check) {
  const uint32_t n_frames = FramesOf(path);
  const bool has_kind = path.kind_case() != v1::CameraPath::KIND_NOT_SET;
  check.Require(has_kind, field, "must be one of cameras, keyframes and scene");
  check.Require(!has_kind || (n_frames >= 1 && n_frames <= kMaxFrames),
                fmt::format("{}.{}", field, FramesField(path)),
                fmt::format("must be 1 to {} frames", kMaxFrames));
  const int n_keyframes = path.keyframes().keyframes_size();
  if (path.has_keyframes()) {
    check.Require(n_keyframes >= 1 && n_keyframes <= kMaxKeyframes,
                  fmt::format("{}.keyframes", field),
                  fmt::format("must be 1 to {} keyframes", kMaxKeyframes));
  }
  for (int i = 0; i < std::min(n_keyframes, kMaxKeyframes); ++i) {
    CheckKeyframe(fmt::format("{}.keyframes[{}]", field, i), path.keyframes().keyframes(i), check);
  }
  for (int i = 0; i < path.cameras().cameras_size() && i < static_cast<int>(kMaxFrames); ++i) {
    const absl::Status status = CheckCamera(path.cameras().cameras(i));
    check.Require(status.ok(), fmt::format("{}.cameras[{}]", field, i),
                  std::string(status.message()));
  }
  check.Require(v1::PathKind_IsValid(path.scene().path()), fmt::format("{}.scene", field),
                "is not a path known to this server");
}

absl::StatusOr<std::vector<v1::Camera>> ExpandPath(std::string_view field,
                                                   const v1::CameraPath& path, uint32_t width,
                                                   uint32_t height) {
  RequestCheck check;
  CheckCameraPath(field, path, check);
  CheckSize("", width, height, check);
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
