#include "engine/commands/render_flags.h"

#include <string_view>

#include "common/edit_distance.h"
#include "engine/commands/command.h"
#include "engine/commands/flag_errors.h"
#include "engine/config/view_limits.h"
#include "engine/path/camera_path.h"
#include "engine/training/device.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// EXR is for other programs: what reads pictures back here reads PNG.
void CheckFormat(const RenderFlags& flags, FlagErrors* errors) {
  if (!flags.is_exr() && flags.format != "png") {
    constexpr std::string_view kFormats[] = {"png", "exr"};
    errors->Add(absl::InvalidArgumentError("--format: " + NotOneOf(flags.format, kFormats)));
  }
  const auto need_png = [&](bool is_given, std::string_view flag) {
    if (!is_given || !flags.is_exr()) return;
    errors->Add(absl::InvalidArgumentError(fmt::format("{}: needs --format png", flag)));
  };
  need_png(flags.progressive, "--progressive");
  need_png(flags.sheet, "--sheet");
  need_png(flags.out.empty() && !flags.video.empty(), "--video without --out");
}

// Which views, and their size.
void AddRenderedViewFlags(CLI::App* command, RenderFlags* flags) {
  CLI::Option* camera = command->add_option(
      "--camera", flags->camera,
      "camera file in the format of transforms.json, a camera path of nerfstudio or "
      "instant-ngp, or a data set's folder for its test views beside their "
      "photographs");
  CLI::Option* orbit =
      command->add_option("--orbit", flags->orbit, "this many views on a circle around the scene")
          ->check(CLI::Range(1, kMaxOrbitViews))
          ->excludes(camera);
  command
      ->add_option("--path", flags->path,
                   "auto, orbit, spiral, flyby or cameras (near the training views); auto takes "
                   "what suits the training views")
      ->capture_default_str()
      ->excludes(camera)
      ->excludes(orbit);
  command->add_option("--dataset", flags->dataset,
                      "folder of the data set that a camera path of nerfstudio or instant-ngp is "
                      "for");
  command
      ->add_option(
          "--frames", flags->frames,
          fmt::format("views along a path (default: {}; of a video {} seconds, {} at 30 fps)",
                      kDefaultViews, kDefaultVideoSeconds, kDefaultVideoSeconds * 30))
      ->check(CLI::Range(1, kMaxOrbitViews))
      ->excludes(orbit);
  command
      ->add_option("--width", flags->width,
                   "pixels; default: the camera's, at most about 1 megapixel in all")
      ->check(CLI::Range(1, kMaxViewSide));
  command
      ->add_option("--height", flags->height,
                   "pixels; default: the camera's, at most about 1 megapixel in all")
      ->check(CLI::Range(1, kMaxViewSide));
  command->add_flag("--full-size", flags->full_size,
                    "do not reduce views of more than 1 megapixel");
}

void AddRenderStyleFlags(CLI::App* command, StyleFlags* flags) {
  command->add_option("--background", flags->background,
                      "white, black or #rrggbb, also in place of one that the model has learned");
  command->add_option("--crop", flags->crop,
                      "x,y,z,sx,sy,sz: show only what is in this box, center and sides in the data "
                      "set's frame and unit; with its turn behind them, a quaternion x,y,z,w");
  command->add_flag("--panorama", flags->panorama,
                    "views of all directions (equirectangular), twice as wide as high");
  command
      ->add_option("--stereo", flags->stereo,
                   "of a panorama: none, or for headsets top-bottom or left-right")
      ->capture_default_str();
  command->add_option("--eye-distance", flags->eye_distance,
                      "between the eyes of --stereo, in the data set's unit: 0.063 in meters");
}

}  // namespace

VideoContent VideoContentOf(const ViewChannels& channels, const ViewStyle& style) {
  VideoContent content{.alpha = channels.rgba};
  if (style.panorama.has_value()) content.panorama = style.panorama->stereo;
  return content;
}

absl::Status CheckRenderFlags(const RenderFlags& flags,
                              const absl::StatusOr<ViewChannels>& channels,
                              const absl::StatusOr<ViewStyle>& style) {
  FlagErrors errors;
  errors.Add(CheckDevice(flags.device));
  errors.Add(channels.status());
  errors.Add(style.status());
  CheckFormat(flags, &errors);
  if (style.ok() && style->panorama.has_value()) {
    const absl::Status size =
        PanoramaSize(style->panorama->stereo, {flags.width, flags.height}).status();
    if (!size.ok()) {
      errors.Add(
          absl::InvalidArgumentError(fmt::format("--width: {}", std::string(size.message()))));
    }
  }
  const bool has_color = !channels.ok() || channels->HasColor();
  if (flags.progressive && !has_color) {
    errors.Add(absl::InvalidArgumentError("--progressive: needs rgb in --channels"));
  }
  if (flags.sheet && !has_color) {
    errors.Add(absl::InvalidArgumentError("--sheet: needs rgb in --channels"));
  }
  if (flags.out.empty() && flags.video.empty()) {
    errors.Add(absl::InvalidArgumentError("--out or --video is required"));
  }
  if (!flags.video.empty()) {
    errors.Add(CheckVideoPath(flags.video, VideoContentOf(channels.value_or(ViewChannels()),
                                                          style.value_or(ViewStyle()))));
  }
  if (!ParsePathKind(flags.path).has_value()) {
    constexpr std::string_view kPaths[] = {"auto", "orbit", "spiral", "flyby", "cameras"};
    errors.Add(absl::InvalidArgumentError("--path: " + NotOneOf(flags.path, kPaths)));
  }
  return errors.ToStatus();
}

void AddRenderFlags(CLI::App* command, RenderFlags* flags) {
  command->add_option("MODEL", flags->model, "model or checkpoint file")->required();
  AddRenderedViewFlags(command, flags);
  command->add_option("--video", flags->video,
                      "also make an .mp4, .mov or .mkv of the views, with ffmpeg, of rgba a .webm "
                      "or .mov; without --out the images are kept only if that fails");
  command->add_option("--fps", flags->fps, "frames a second of the video")
      ->check(CLI::Range(0.1, 240.0))
      ->capture_default_str();
  command->add_option("--ffmpeg", flags->ffmpeg, "ffmpeg's program")->capture_default_str();
  command->add_option("--out", flags->out, "folder for the images");
  command
      ->add_option("--channels", flags->channels,
                   "of rgb, rgba (with alpha, in place of rgb), depth, opacity; comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--format", flags->format,
                   "png, or exr: linear light in halves, depth in floats and the data set's unit")
      ->capture_default_str();
  AddRenderStyleFlags(command, &flags->style);
  command->add_flag("--sheet", flags->sheet,
                    "all color views in one picture, sheet.png, also of a single view");
  command
      ->add_option("--appearance", flags->appearance,
                   "show the light of this training picture, from 0 on in the data set's order, in "
                   "place of the mean; of models trained with appearance_rate")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--progressive", flags->progressive,
                    "write each view coarse first and then finer, to the same file; a GPU "
                    "renders it in one pass");
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->footer(
      "Examples:\n"
      "  nerf-engine render run/model.safetensors --out views\n"
      "  nerf-engine render run/model.safetensors --path cameras --video run.mp4\n"
      "  nerf-engine render run/model.safetensors --camera examples/mic --channels rgb,depth \\\n"
      "      --out views\n"
      "  nerf-engine render run/model.safetensors --channels rgba --crop 0,0,0,1,1,1 \\\n"
      "      --video cut.webm\n"
      "  nerf-engine render run/model.safetensors --camera camera_path.json --dataset photos \\\n"
      "      --video run.mp4");
}

}  // namespace nerf
