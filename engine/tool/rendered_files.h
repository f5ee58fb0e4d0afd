#pragma once

#include "absl/status/statusor.h"
#include "engine/render/render_device.h"
#include "engine/tool/serve_messages.h"

namespace nerf {

// What a `rendered` message names.
struct RenderedFiles {
  JsonObject files = JsonObject::object();  // channel: path
  float far = 0;                            // of the depths, in the data set's units; 0 without
};

// Writes the channels that the message asks for into its folder, which is made, as files named by
// its id; each is whole or not there. scale: training units per own unit.
absl::StatusOr<RenderedFiles> WriteRenderedFiles(const ViewPicture& view,
                                                 const RenderMessage& message, float scale);

}  // namespace nerf
