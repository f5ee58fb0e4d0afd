#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/messages/view_flags.h"
#include "engine/program/written_views/view_writer.h"
#include "engine/views/video_writer.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags of `nerf-engine render`, as typed.
struct RenderFlags : ViewFlags {
  std::string model, device = "cpu";
  std::optional<int> appearance;
  int threads = 0;
  bool progressive = false, json = false;
};

void AddRenderFlags(CLI::App* command, RenderFlags* flags);

// What a video of such views has.
VideoContent VideoContentOf(const ViewChannels& channels, const ViewStyle& style);

// Errors name every wrong flag.
absl::StatusOr<ViewChoice> CheckRenderFlags(const RenderFlags& flags);

}  // namespace nerf
