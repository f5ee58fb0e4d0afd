#include "client/flags/render_plan.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "absl/strings/str_split.h"
#include "client/flags/names.h"
#include "common/edit_distance.h"
#include "common/messages/path_kind.h"
#include "common/nearest_path.h"
#include "common/problems.h"
#include "common/status_macros.h"
#include "engine/config/view_limits.h"
#include "engine/config/view_style_check.h"
#include "engine/messages/crop_box.h"
#include "engine/scene/image_resize.h"
#include "engine/views/keyframe_views.h"
#include "engine/views/video_writer.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kDefaultViews = 8;
constexpr double kVideoSeconds = 5;  // of a video for which no number of frames is given

constexpr RenderChannelName kChannels[] = {
    {"rgb", v1::RGB}, {"rgba", v1::RGBA}, {"depth", v1::DEPTH}, {"opacity", v1::OPACITY}};

absl::StatusOr<std::vector<RenderChannelName>> ParseChannels(const std::string& text) {
  std::vector<RenderChannelName> channels;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto known = std::find_if(std::begin(kChannels), std::end(kChannels),
                                    [&](const auto& channel) { return channel.name == name; });
    if (known == std::end(kChannels)) {
      constexpr std::string_view kNames[] = {"rgb", "rgba", "depth", "opacity"};
      return absl::InvalidArgumentError("--channels: " + NotOneOf(name, kNames));
    }
    for (const RenderChannelName& channel : channels) {
      if (channel.value == known->value) {
        return absl::InvalidArgumentError(fmt::format("--channels: {} is given twice", name));
      }
    }
    channels.push_back(*known);
  }
  return channels;
}

v1::Camera ToProto(const Camera& camera) {
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
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      proto.add_transform_matrix(camera.camera_to_world.m[row][column]);
    }
  }
  for (const double value : {0.0, 0.0, 0.0, 1.0}) proto.add_transform_matrix(value);
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

absl::Status SetFormat(const RenderFlags& flags, RenderPlan* plan) {
  const bool jpeg = flags.format == "jpeg" || flags.format == "jpg";
  const bool exr = flags.format == "exr";
  if (!jpeg && !exr && flags.format != "png") {
    constexpr std::string_view kFormats[] = {"png", "jpeg", "exr"};
    return absl::InvalidArgumentError("--format: " + NotOneOf(flags.format, kFormats));
  }
  if (jpeg && plan->Has(v1::DEPTH)) {
    return absl::InvalidArgumentError("--format: depth has 16 bits and needs png, not jpeg");
  }
  if (jpeg && plan->Has(v1::RGBA)) {
    return absl::InvalidArgumentError("--format: rgba has alpha and needs png, not jpeg");
  }
  if (plan->Has(v1::RGB) && plan->Has(v1::RGBA)) {
    return absl::InvalidArgumentError("--channels: rgba is in place of rgb; name one of them");
  }
  if (exr && (flags.sheet || !flags.video.empty())) {
    return absl::InvalidArgumentError("--format: --sheet and --video need png or jpeg, not exr");
  }
  plan->request.set_format(jpeg ? v1::JPEG : exr ? v1::EXR : v1::PNG);
  return absl::OkStatus();
}

// Sets the path and its number of views, unless --camera is given.
absl::Status SetPath(const RenderFlags& flags, RenderPlan* plan) {
  const v1::PathKind path = ParsePathKindWord(flags.path);
  if (path == v1::PATH_KIND_UNSPECIFIED) {
    return absl::InvalidArgumentError("--path: " + NotOneOf(flags.path, kPathKindWords));
  }
  plan->n_views = flags.orbit > 0 ? flags.orbit : flags.frames;
  if (plan->n_views == 0) {
    plan->n_views = flags.video.empty()
                        ? kDefaultViews
                        : std::max<size_t>(1, static_cast<size_t>(flags.fps * kVideoSeconds));
  }
  if (!flags.camera.empty()) return absl::OkStatus();
  plan->request.mutable_orbit()->set_path(flags.orbit > 0 ? v1::PATH_ORBIT : path);
  plan->request.mutable_orbit()->set_full_size(flags.full_size);
  return absl::OkStatus();
}

// Refuses two of `options` in one command.
void ExcludeEachOther(std::initializer_list<CLI::Option*> options) {
  for (CLI::Option* one : options) {
    for (CLI::Option* other : options) {
      if (one != other) one->excludes(other);
    }
  }
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
  ExcludeEachOther({source, model, checkpoint, job});
}

// What is seen: cameras of a file, an orbit or a path.
void AddViewFlags(CLI::App& render, RenderFlags* flags) {
  CLI::Option* camera = render
                            .add_option("--camera", flags->camera,
                                        "All frames of a transforms.json-like file, a camera "
                                        "path of\nnerfstudio or instant-ngp, or the test views "
                                        "of a data\nset's folder")
                            ->type_name("FILE");
  render
      .add_option("--dataset", flags->dataset,
                  "Folder of the data set that a camera path of nerfstudio or\ninstant-ngp is for")
      ->type_name("DIR")
      ->needs(camera);
  CLI::Option* orbit = render.add_option("--orbit", flags->orbit, "N views around the scene")
                           ->type_name("N")
                           ->check(CLI::Range(1, kMaxOrbitViews));
  CLI::Option* path =
      render
          .add_option(
              "--path", flags->path,
              "auto, orbit, spiral, flyby or cameras (near the training views);\nauto takes "
              "what suits the training views")
          ->type_name("NAME")
          ->capture_default_str();
  ExcludeEachOther({camera, orbit, path});
  render
      .add_option(
          "--frames", flags->frames,
          "Views along the path (default: 8; of a video 5 seconds, which\nare 150 at 30 fps)")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxOrbitViews))
      ->excludes(orbit);
}

}  // namespace

bool RenderPlan::Has(v1::RenderChannel channel) const {
  return std::any_of(channels.begin(), channels.end(),
                     [&](const RenderChannelName& c) { return c.value == channel; });
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
  *view.mutable_camera() = ToProto(views[i].camera);
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

absl::StatusOr<RenderPlan> MakeRenderPlan(const RenderFlags& flags, const std::string& project) {
  RenderPlan plan;
  Problems problems;
  problems.Add(SetSource(flags, project, &plan.request));
  problems.AddOrAssign(ParseChannels(flags.channels), &plan.channels);
  problems.Add(SetFormat(flags, &plan));
  const bool lacks_color = !plan.channels.empty() && !plan.HasColor();
  ViewStyle style;
  problems.AddOrAssign(ParseStyle(flags.style), &style);
  if (style.panorama.has_value()) {
    const auto size = PanoramaSize(style.panorama->stereo, {flags.width, flags.height});
    if (!size.ok()) problems.Add("--width", size.status());
  }
  if (flags.sheet && lacks_color) problems.Add("--sheet", "needs rgb among --channels");
  if (flags.out.empty() && flags.video.empty()) {
    problems.Add("", "render needs --out or --video");
  }
  if (style != ViewStyle()) *plan.request.mutable_style() = ToProto(style);
  if (flags.style.crop == kNoCrop) plan.request.mutable_style()->set_whole(true);
  if (!flags.video.empty()) problems.Add(CheckVideoPath(flags.video, plan.VideoContentOf()));
  if (!flags.video.empty() && lacks_color) {
    problems.Add("--video", "needs rgb among --channels");
  }
  problems.Add(SetPath(flags, &plan));
  NERF_RETURN_IF_ERROR(problems.Result());
  for (const RenderChannelName& channel : plan.channels) plan.request.add_channels(channel.value);
  plan.request.set_width(flags.width);
  plan.request.set_height(flags.height);
  return plan;
}

absl::Status ReadCameras(const RenderFlags& flags, RenderPlan* plan) {
  if (flags.camera.empty()) return absl::OkStatus();
  // Frames without a size, such as Blender's, take the size of the flags.
  NERF_ASSIGN_OR_RETURN(
      ViewList list,
      WithNearestPath(ReadViewList(flags.camera,
                                   {static_cast<int>(flags.width), static_cast<int>(flags.height)},
                                   flags.dataset),
                      flags.camera));
  if (list.in_frame_of.has_value()) {
    return absl::InvalidArgumentError(
        flags.camera +
        ": is a camera path in the frame of another program; name the folder of "
        "the data set that it was made for with --dataset DIR");
  }
  NERF_RETURN_IF_ERROR(CheckFrameCount(static_cast<int>(flags.frames), list));
  ExpandKeyframes(static_cast<int>(flags.frames), flags.fps, &list);
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

v1::ViewStyle ToProto(const ViewStyle& style) {
  v1::ViewStyle proto;
  if (style.background.has_value()) {
    for (int i = 0; i < 3; ++i) proto.add_background((*style.background)[i]);
  }
  if (style.crop.has_value()) *proto.mutable_crop() = ToMessage(*style.crop);
  if (style.panorama.has_value()) {
    proto.mutable_panorama()->set_stereo(static_cast<v1::Panorama::Stereo>(style.panorama->stereo));
    proto.mutable_panorama()->set_eye_distance(style.panorama->eye_distance);
  }
  return proto;
}

void AddStyleFlags(CLI::App& render, StyleFlags* flags) {
  render
      .add_option("--background", flags->background,
                  "white, black or #rrggbb, also in place of one that the model\nhas learned")
      ->type_name("COLOR");
  render
      .add_option("--crop", flags->crop,
                  "x,y,z,sx,sy,sz: show only what is in this box, center and\nsides in the data "
                  "set's frame and unit; with its turn behind\nthem, a quaternion x,y,z,w; none: "
                  "all, also where a box is\nkept with the model")
      ->type_name("BOX|none");
  render.add_flag("--panorama", flags->panorama,
                  "Views of all directions (equirectangular), twice as wide as\nhigh");
  render
      .add_option("--stereo", flags->stereo,
                  "Of a panorama: none, or for headsets top-bottom or left-right")
      ->type_name("NAME")
      ->capture_default_str();
  render
      .add_option("--eye-distance", flags->eye_distance,
                  "Between the eyes of --stereo, in the data set's unit: 0.063 in\nmeters")
      ->type_name("LENGTH");
}

void AddRenderFlags(CLI::App& render, RenderFlags* flags) {
  AddStyleFlags(render, &flags->style);
  AddSourceFlags(render, flags);
  AddViewFlags(render, flags);
  render
      .add_option("--video", flags->video,
                  "Also make an .mp4, .mov or .mkv of the views, with ffmpeg, of\nrgba a .webm or "
                  ".mov; without --out the images are kept only if\nthat fails")
      ->type_name("FILE");
  render.add_option("--fps", flags->fps, "Frames a second of the video")
      ->type_name("N")
      ->check(CLI::Range(0.1, 240.0))
      ->capture_default_str();
  render.add_option("--ffmpeg", flags->ffmpeg, "ffmpeg's program")
      ->type_name("PROGRAM")
      ->capture_default_str();
  render.add_flag("--full-size", flags->full_size, "Do not reduce views of more than 1 megapixel");
  render
      .add_option("--width", flags->width,
                  "Width in pixels (default: the camera's, at most about 1\nmegapixel in all)")
      ->type_name("PIXELS")
      ->check(CLI::Range(1, kMaxViewSide));
  render.add_option("--height", flags->height, "Height in pixels")
      ->type_name("PIXELS")
      ->check(CLI::Range(1, kMaxViewSide));
  render
      .add_option("--channels", flags->channels,
                  "Any of rgb, rgba (with alpha, in place of rgb), depth,\nopacity, with commas")
      ->type_name("LIST")
      ->capture_default_str();
  render
      .add_option("--format", flags->format,
                  "png, jpeg, or exr (linear light; depth in the data set's unit)")
      ->type_name("NAME")
      ->capture_default_str();
  render.add_option("--out", flags->out, "Folder for the images; made if missing")
      ->type_name("DIR");
  render.add_flag("--sheet", flags->sheet,
                  "Also write all color views into one picture, sheet.png");
}

}  // namespace nerf
