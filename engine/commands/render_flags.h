#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/config/view_style_check.h"
#include "engine/output/view_writer.h"
#include "engine/views/video_writer.h"

namespace CLI {
class App;
}

namespace nerf {

inline constexpr int kDefaultViews = 8;
inline constexpr double kDefaultVideoSeconds = 5;

// The flags of `nerf-engine render`, as typed.
struct RenderFlags {
  StyleFlags style;
  std::string model, camera, dataset, out, video, path = "auto", device = "cpu", ffmpeg = "ffmpeg";
  std::optional<int> appearance;
  int orbit = 0, frames = 0, width = 0, height = 0, threads = 0;
  double fps = 30;
  std::vector<std::string> channels = {"rgb"};
  std::string format = "png";
  bool progressive = false, full_size = false, sheet = false, json = false;

  bool is_exr() const { return format == "exr"; }
};

void AddRenderFlags(CLI::App* command, RenderFlags* flags);

// What a video of such views has.
VideoContent VideoContentOf(const ViewChannels& channels, const ViewStyle& style);

// Errors name every wrong flag.
absl::Status CheckRenderFlags(const RenderFlags& flags,
                              const absl::StatusOr<ViewChannels>& channels,
                              const absl::StatusOr<ViewStyle>& style);

}  // namespace nerf
