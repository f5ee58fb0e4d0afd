#include "engine/base/messages/view_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/edit_distance.h"
#include "common/messages/path_kind.h"
#include "common/messages/render_channel.h"
#include "engine/base/config/view_limits.h"

namespace nerf {
namespace {

// Adds flags with their help.
class ViewBinder {
 public:
  ViewBinder(CLI::App& command, bool capitals) : command_(command), capitals_(capitals) {}

  template <typename Value>
  CLI::Option* Add(const char* flag, Value* value, std::string help, const char* type) {
    return command_.add_option(flag, *value, Begun(std::move(help)))->type_name(type);
  }
  void AddFlag(const char* flag, bool* value, std::string help) {
    command_.add_flag(flag, *value, Begun(std::move(help)));
  }

 private:
  std::string Begun(std::string help) const {
    if (capitals_) help[0] = absl::ascii_toupper(static_cast<unsigned char>(help[0]));
    return help;
  }

  CLI::App& command_;
  const bool capitals_;
};

}  // namespace

int ViewFlags::n_views() const {
  constexpr int kDefaultViews = 8;
  constexpr double kDefaultSeconds = 5;
  if (orbit > 0 || frames > 0) return orbit > 0 ? orbit : frames;
  return video.empty() ? kDefaultViews : std::max(1, static_cast<int>(fps * kDefaultSeconds));
}

void ExcludeEachOther(std::span<CLI::Option* const> options) {
  for (CLI::Option* one : options) {
    for (CLI::Option* other : options) {
      if (one != other) one->excludes(other);
    }
  }
}

void AddStyleFlags(CLI::App& command, bool capitals, StyleFlags* flags) {
  ViewBinder binder(command, capitals);
  binder.Add("--background", &flags->background,
             "white, black or #rrggbb, also in place of one that the model\nhas learned", "COLOR");
  binder.Add("--crop", &flags->crop,
             "x,y,z,sx,sy,sz: show only what is in this box, center and\nsides in the data "
             "set's frame and unit; with its turn behind\nthem, a quaternion x,y,z,w; none: "
             "without the box that a\nserver keeps with a model or job",
             "BOX|none");
  binder.AddFlag("--panorama", &flags->panorama,
                 "views of all directions (equirectangular), twice as wide as\nhigh");
  binder
      .Add("--stereo", &flags->stereo,
           "of a panorama: none, or for headsets top-bottom or left-right", "NAME")
      ->capture_default_str();
  binder.Add("--eye-distance", &flags->eye_distance,
             "between the eyes of --stereo, in the data set's unit: 0.063 in\nmeters", "LENGTH");
}

void AddViewFlags(CLI::App& command, bool capitals, std::string_view formats, ViewFlags* flags) {
  AddStyleFlags(command, capitals, &flags->style);
  ViewBinder binder(command, capitals);
  CLI::Option* const camera = binder.Add(
      "--camera", &flags->camera,
      "all frames of a transforms.json-like file, a camera path of\nnerfstudio or instant-ngp, or "
      "the test views of a data\nset's folder",
      "FILE");
  binder
      .Add("--dataset", &flags->dataset,
           "folder of the data set that a camera path of nerfstudio or\ninstant-ngp is for", "DIR")
      ->needs(camera);
  CLI::Option* const orbit = binder.Add("--orbit", &flags->orbit, "N views around the scene", "N")
                                 ->check(CLI::Range(1, kMaxOrbitViews));
  CLI::Option* const path =
      binder
          .Add("--path", &flags->path,
               "auto, orbit, spiral, flyby or cameras (near the training views);\nauto takes "
               "what suits the training views",
               "NAME")
          ->capture_default_str();
  CLI::Option* const views[] = {camera, orbit, path};
  ExcludeEachOther(views);
  binder
      .Add("--frames", &flags->frames,
           "views along the path (default: 8; of a video 5 seconds, which\nare 150 at 30 fps)", "N")
      ->check(CLI::Range(1, kMaxOrbitViews))
      ->excludes(orbit);
  binder.Add("--video", &flags->video,
             "also make an .mp4, .mov or .mkv of the views, with ffmpeg, of\nrgba a .webm or "
             ".mov; without --out the images are kept only if\nthat fails",
             "FILE");
  binder.Add("--fps", &flags->fps, "frames a second of the video", "N")
      ->check(CLI::Range(0.1, 240.0))
      ->capture_default_str();
  binder.Add("--ffmpeg", &flags->ffmpeg, "ffmpeg's program", "PROGRAM")->capture_default_str();
  binder.AddFlag("--full-size", &flags->full_size, "do not reduce views of more than 1 megapixel");
  binder
      .Add("--width", &flags->width,
           "width in pixels (default: the camera's, at most about 1\nmegapixel in all)", "PIXELS")
      ->check(CLI::Range(1, kMaxViewSide));
  binder.Add("--height", &flags->height, "height in pixels", "PIXELS")
      ->check(CLI::Range(1, kMaxViewSide));
  binder
      .Add("--channels", &flags->channels,
           "any of rgb, rgba (with alpha, in place of rgb), rgbaz (of exr:\nrgba and depth in one "
           "file), depth, opacity, with commas",
           "LIST")
      ->capture_default_str();
  binder.Add("--format", &flags->format, std::string(formats), "NAME")->capture_default_str();
  binder.Add("--out", &flags->out, "folder for the images; made if missing", "DIR");
  binder.AddFlag("--sheet", &flags->sheet,
                 "all color views in one picture, sheet.png, also of a single view");
}

absl::StatusOr<std::vector<v1::RenderChannel>> ParseChannels(std::string_view text) {
  static constexpr v1::RenderChannel kChannels[] = {v1::RGB, v1::RGBA, v1::RGBAZ, v1::DEPTH,
                                                    v1::OPACITY};
  std::vector<v1::RenderChannel> channels;
  const auto has = [&](v1::RenderChannel channel) {
    return std::find(channels.begin(), channels.end(), channel) != channels.end();
  };
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(absl::string_view(text.data(), text.size()), ','))) {
    const auto known = std::find_if(std::begin(kChannels), std::end(kChannels),
                                    [&](auto channel) { return ChannelWord(channel) == word; });
    if (known == std::end(kChannels)) {
      constexpr std::string_view kNames[] = {"rgb", "rgba", "rgbaz", "depth", "opacity"};
      return absl::InvalidArgumentError("--channels: " + NotOneOf(word, kNames));
    }
    if (has(*known))
      return absl::InvalidArgumentError(fmt::format("--channels: {} is given twice", word));
    channels.push_back(*known);
  }
  if (has(v1::RGB) && has(v1::RGBA))
    return absl::InvalidArgumentError("--channels: rgba is in place of rgb; name one of them");
  if (has(v1::RGBAZ) && (has(v1::RGB) || has(v1::RGBA))) {
    return absl::InvalidArgumentError(
        "--channels: rgbaz is in place of rgb and rgba; name one of them");
  }
  return channels;
}

bool HasColor(std::span<const v1::RenderChannel> channels) {
  return std::any_of(channels.begin(), channels.end(), [](auto channel) {
    return channel == v1::RGB || channel == v1::RGBA || channel == v1::RGBAZ;
  });
}

ViewChoice ReadViewFlags(const ViewFlags& flags, std::span<const std::string_view> formats,
                         Problems* problems) {
  ViewChoice choice;
  problems->AddOrAssign(ParseChannels(flags.channels), &choice.channels);
  if (std::find(formats.begin(), formats.end(), flags.format) == formats.end())
    problems->Add("--format", NotOneOf(flags.format, formats));
  const bool has_rgbaz =
      std::find(choice.channels.begin(), choice.channels.end(), v1::RGBAZ) != choice.channels.end();
  problems->Require(!has_rgbaz || flags.is_exr(), "--channels", "rgbaz needs --format exr");
  problems->AddOrAssign(ParseStyle(flags.style), &choice.style);
  if (choice.style.panorama.has_value()) {
    problems->Add(
        "--width",
        PanoramaSize(choice.style.panorama->stereo, {flags.width, flags.height}).status());
  }
  const bool lacks_color = !choice.channels.empty() && !HasColor(choice.channels);
  problems->Require(!flags.sheet || !lacks_color, "--sheet", "needs rgb among --channels");
  problems->Require(!flags.out.empty() || !flags.video.empty(), "",
                    "render needs --out or --video");
  if (ParsePathKindWord(flags.path) == v1::PATH_KIND_UNSPECIFIED)
    problems->Add("--path", NotOneOf(flags.path, kPathKindWords));
  return choice;
}

}  // namespace nerf
