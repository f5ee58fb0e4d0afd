#include "client/flags/render_plan.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "client/flags/names.h"
#include "common/files/nearest_path.h"
#include "common/messages/path_kind.h"
#include "common/problems.h"
#include "common/status_macros.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/pose_message.h"
#include "engine/base/messages/view_style.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/scene/pose.h"
#include "engine/views/keyframe_views.h"
#include "engine/views/video_writer.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr std::string_view kFormats[] = {"png", "jpeg", "exr"};

// camera: relative to the origin.
v1::Camera ToProto(const Camera& camera, const Vec3d& origin) {
  v1::Camera proto;
  proto.set_width(static_cast<uint32_t>(std::max(0, camera.width)));
  proto.set_height(static_cast<uint32_t>(std::max(0, camera.height)));
  proto.set_fl_x(camera.fl_x);
  proto.set_fl_y(camera.fl_y);
  proto.set_cx(camera.cx);
  proto.set_cy(camera.cy);
  proto.set_lens(camera.lens == LensModel::kOpenCv ? v1::LENS_MODEL_OPENCV
                                                   : v1::LENS_MODEL_PINHOLE);
  proto.set_k1(camera.k1);
  proto.set_k2(camera.k2);
  proto.set_k3(camera.k3);
  proto.set_p1(camera.p1);
  proto.set_p2(camera.p2);
  proto.set_time(camera.time);
  WritePose(camera.camera_to_world, origin, proto.mutable_transform_matrix());
  return proto;
}

// Sets the source of the render: exactly one of NAME, --model, --checkpoint and --job.
absl::Status SetSource(const RenderFlags& flags, const std::string& project,
                       v1::RenderImageRequest* request) {
  std::string model = flags.model, checkpoint = flags.checkpoint;
  if (!flags.source.empty()) {
    (LooksLikeCheckpoint(flags.source) ? checkpoint : model) = flags.source;
  }
  if (!model.empty()) {
    NERF_ASSIGN_OR_RETURN(*request->mutable_model(),
                          ExpandName(ResourceKind::kModel, model, project));
  } else if (!checkpoint.empty()) {
    NERF_ASSIGN_OR_RETURN(*request->mutable_checkpoint(),
                          ExpandCheckpointName(checkpoint, project, /*newest_allowed=*/false));
  } else if (!flags.job.empty()) {
    NERF_ASSIGN_OR_RETURN(*request->mutable_training_job(),
                          ExpandName(ResourceKind::kJob, flags.job, project));
  } else {
    return absl::InvalidArgumentError("render needs a model, --checkpoint or --job");
  }
  return absl::OkStatus();
}

void SetFormat(const RenderFlags& flags, RenderPlan* plan, Problems* problems) {
  const bool jpeg = flags.format == "jpeg";
  problems->Require(!jpeg || !plan->Has(v1::DEPTH), "--format",
                    "depth has 16 bits and needs png, not jpeg");
  problems->Require(!jpeg || !plan->Has(v1::RGBA), "--format",
                    "rgba has alpha and needs png, not jpeg");
  problems->Require(!flags.is_exr() || (!flags.sheet && flags.video.empty()), "--format",
                    "--sheet and --video need png or jpeg, not exr");
  plan->request.set_format(jpeg ? v1::JPEG : flags.is_exr() ? v1::EXR : v1::PNG);
}

// What is rendered: a model, a checkpoint or a job.
void AddSourceFlags(CLI::App& render, RenderFlags* flags) {
  CLI::Option* source =
      render.add_option("model", flags->source, "Model to render, or a checkpoint JOB/STEP");
  CLI::Option* model =
      render.add_option("--model", flags->model, "Render this model")->type_name("MODEL");
  CLI::Option* checkpoint =
      render.add_option("--checkpoint", flags->checkpoint, "Render this checkpoint")
          ->type_name("JOB/STEP");
  CLI::Option* job =
      render.add_option("--job", flags->job, "Render a job as it is now")->type_name("JOB");
  CLI::Option* const sources[] = {source, model, checkpoint, job};
  ExcludeEachOther(sources);
}

}  // namespace

bool RenderPlan::Has(v1::RenderChannel channel) const {
  return std::find(channels.begin(), channels.end(), channel) != channels.end();
}

const char* RenderPlan::ending() const {
  return request.format() == v1::JPEG ? "jpg" : is_exr() ? "exr" : "png";
}

v1::RenderImageRequest RenderPlan::RequestOf(size_t i) const {
  v1::RenderImageRequest view = request;
  if (views.empty()) {
    view.mutable_orbit()->set_index(static_cast<uint32_t>(i));
    view.mutable_orbit()->set_count(static_cast<uint32_t>(n_views));
    return view;
  }
  view.clear_orbit();
  *view.mutable_camera() = ToProto(views[i].camera, origin);
  if (reduced_from.width > 0) {
    const ReducedSize size =
        FitPixels(views[i].camera.width, views[i].camera.height, kMaxDefaultViewPixels);
    view.set_width(static_cast<uint32_t>(size.width));
    view.set_height(static_cast<uint32_t>(size.height));
  }
  return view;
}

VideoContent RenderPlan::VideoContentOf() const {
  VideoContent content{.alpha = Has(v1::RGBA)};
  if (request.style().has_panorama())
    content.panorama = static_cast<StereoLayout>(request.style().panorama().stereo());
  return content;
}

std::string RenderPlan::NameOf(size_t i) const {
  const std::string name =
      views.empty() || views[i].name.empty() ? fmt::format("{:04}", i) : views[i].name;
  // As viewers know the layout of a stereo picture by.
  switch (request.style().panorama().stereo()) {
    case v1::Panorama::TOP_BOTTOM:
      return name + "_TB";
    case v1::Panorama::LEFT_RIGHT:
      return name + "_LR";
    default:
      return name;
  }
}

std::string RenderPlan::PhotographOf(size_t i) const {
  // Photographs are no panoramas, and show what a box leaves out. EXR pictures are not read back.
  const bool is_compared =
      !request.style().has_panorama() && !request.style().has_crop() && !is_exr();
  return views.empty() || !is_compared ? "" : views[i].photograph;
}

absl::StatusOr<RenderPlan> MakeRenderPlan(const RenderFlags& typed, const std::string& project) {
  RenderFlags flags = typed;
  if (flags.format == "jpg") flags.format = "jpeg";
  RenderPlan plan;
  Problems problems;
  problems.Add(SetSource(flags, project, &plan.request));
  ViewChoice choice = ReadViewFlags(flags, kFormats, &problems);
  plan.channels = std::move(choice.channels);
  SetFormat(flags, &plan, &problems);
  if (choice.style != ViewStyle()) *plan.request.mutable_style() = ToMessage(choice.style);
  if (flags.style.crop == kNoCrop) plan.request.mutable_style()->set_whole(true);
  if (!flags.video.empty()) problems.Add(CheckVideoPath(flags.video, plan.VideoContentOf()));
  const bool lacks_color = !plan.channels.empty() && !plan.HasColor();
  problems.Require(flags.video.empty() || !lacks_color, "--video", "needs rgb among --channels");
  NERF_RETURN_IF_ERROR(problems.Result());
  plan.n_views = static_cast<size_t>(flags.n_views());
  if (flags.camera.empty()) {
    plan.request.mutable_orbit()->set_path(flags.orbit > 0 ? v1::PATH_ORBIT
                                                           : ParsePathKindWord(flags.path));
    plan.request.mutable_orbit()->set_full_size(flags.full_size);
  }
  for (const v1::RenderChannel channel : plan.channels) plan.request.add_channels(channel);
  plan.request.set_width(static_cast<uint32_t>(flags.width));
  plan.request.set_height(static_cast<uint32_t>(flags.height));
  return plan;
}

absl::Status ReadCameras(const RenderFlags& flags, RenderPlan* plan) {
  if (flags.camera.empty()) return absl::OkStatus();
  // Frames without a size, such as Blender's, take the size of the flags.
  const auto read = [&] {
    return WithNearestPath(
        ReadViewList(flags.camera, {flags.width, flags.height}, flags.dataset, {}, plan->origin),
        flags.camera);
  };
  NERF_ASSIGN_OR_RETURN(ViewList list, read());
  std::vector<Vec3d> positions;
  for (const ListedCamera& view : list.views)
    positions.push_back(ToPose(view.camera.camera_to_world).position());
  plan->origin = LocalOrigin(positions);
  if (plan->origin != Vec3d{0, 0, 0}) {
    NERF_ASSIGN_OR_RETURN(list, read());
  }
  if (list.in_frame_of.has_value()) {
    return absl::InvalidArgumentError(
        flags.camera +
        ": is a camera path in the frame of another program; name the folder of "
        "the data set that it was made for with --dataset DIR");
  }
  NERF_RETURN_IF_ERROR(CheckFrameCount(flags.frames, list));
  ExpandKeyframes(flags.frames, flags.fps, &list);
  plan->warnings = std::move(list.warnings);
  plan->views = std::move(list.views);
  plan->n_views = plan->views.size();
  if (plan->views.empty()) {
    return absl::InvalidArgumentError(flags.camera + ": holds no frames");
  }
  for (const ListedCamera& view : plan->views) {
    const Camera& camera = view.camera;
    const bool is_known = camera.lens == LensModel::kPinhole || camera.lens == LensModel::kOpenCv;
    if (!is_known || camera.k4 != 0 || camera.k5 != 0 || camera.k6 != 0) {
      return absl::InvalidArgumentError(
          flags.camera +
          ": the service renders pinhole and OPENCV lenses; nerf-engine render knows FULL_OPENCV, "
          "fisheye lenses, FOV and EQUIRECTANGULAR, too");
    }
  }
  const bool has_size = flags.full_size || flags.width > 0 || flags.height > 0;
  if (has_size || plan->request.style().has_panorama()) return absl::OkStatus();
  for (const ListedCamera& view : plan->views) {
    if (static_cast<double>(view.camera.width) * view.camera.height <= kMaxDefaultViewPixels) {
      continue;
    }
    plan->reduced_from = {view.camera.width, view.camera.height};
    break;
  }
  return absl::OkStatus();
}

void AddRenderFlags(CLI::App& render, RenderFlags* flags) {
  AddSourceFlags(render, flags);
  AddViewFlags(render, /*capitals=*/true,
               "png, jpeg, or exr (linear light; depth in the data set's unit)", flags);
}

}  // namespace nerf
