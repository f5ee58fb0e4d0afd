#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/problems.h"
#include "engine/base/config/view_style_check.h"
#include "nerf/v1/render_service.pb.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nerf {

// The flags that `nerfctl render` and `nerf-engine render` share, as typed.
struct ViewFlags {
  std::string camera, dataset, path = "auto", channels = "rgb", format = "png";
  std::string out, video, ffmpeg = "ffmpeg";
  int orbit = 0, frames = 0, width = 0, height = 0;  // 0: not given
  double fps = 30;
  bool full_size = false, sheet = false;
  StyleFlags style;

  bool is_exr() const { return format == "exr"; }
  // Views along a path: as many as asked for, else 8, or 5 seconds of a video.
  int n_views() const;
};

// Adds the flags; capitals: help begins with them. formats: help of --format.
void AddViewFlags(CLI::App& command, bool capitals, std::string_view formats, ViewFlags* flags);
// Adds --background, --crop, --panorama, --stereo and --eye-distance.
void AddStyleFlags(CLI::App& command, bool capitals, StyleFlags* flags);
// Refuses two of `options` in one command.
void ExcludeEachOther(std::span<CLI::Option* const> options);

// What a list such as "rgb,depth" names. Errors: InvalidArgument that begins with "--channels: ".
absl::StatusOr<std::vector<v1::RenderChannel>> ParseChannels(std::string_view text);
bool HasColor(std::span<const v1::RenderChannel> channels);

// What views are to be like, by flags that are right.
struct ViewChoice {
  std::vector<v1::RenderChannel> channels;
  ViewStyle style;
};
// Adds what is wrong with all of the flags but --video. formats: those of the program.
ViewChoice ReadViewFlags(const ViewFlags& flags, std::span<const std::string_view> formats,
                         Problems* problems);

}  // namespace nerf
