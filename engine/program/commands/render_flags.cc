#include "engine/program/commands/render_flags.h"

#include <string_view>

#include "common/status_macros.h"
#include "engine/program/console/command.h"
#include "engine/program/console/flag_errors.h"
#include "engine/program/device/device.h"
#include "engine/program/serve/engine_messages.h"
#include "fmt/format.h"

namespace nerf {

VideoContent VideoContentOf(const ViewChannels& channels, const ViewStyle& style) {
  VideoContent content{.alpha = channels.HasAlpha()};
  if (style.panorama.has_value()) content.panorama = style.panorama->stereo;
  return content;
}

absl::StatusOr<ViewChoice> CheckRenderFlags(const RenderFlags& flags) {
  // EXR is for other programs: what reads pictures back here reads PNG.
  constexpr std::string_view kFormats[] = {"png", "exr"};
  FlagErrors errors;
  errors.Add(CheckDevice(flags.device));
  Problems wrong;
  ViewChoice choice = ReadViewFlags(flags, kFormats, &wrong);
  const auto need_png = [&](bool is_given, std::string_view flag) {
    wrong.Require(!is_given || !flags.is_exr(), flag, "needs --format png");
  };
  need_png(flags.progressive, "--progressive");
  need_png(flags.sheet, "--sheet");
  need_png(flags.out.empty() && !flags.video.empty(), "--video without --out");
  wrong.Require(!flags.progressive || choice.channels.empty() || HasColor(choice.channels),
                "--progressive", "needs rgb among --channels");
  if (!flags.video.empty()) {
    const VideoContent content = VideoContentOf(ChannelsOf(choice.channels), choice.style);
    wrong.Add(CheckVideoPath(flags.video, content));
  }
  errors.Add(wrong);
  NERF_RETURN_IF_ERROR(errors.ToStatus());
  return choice;
}

void AddRenderFlags(CLI::App* command, RenderFlags* flags) {
  command->add_option("MODEL", flags->model, "model or checkpoint file")->required();
  AddViewFlags(*command, /*capitals=*/false,
               "png, or exr: linear light in halves, depth in floats and the data set's unit",
               flags);
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
