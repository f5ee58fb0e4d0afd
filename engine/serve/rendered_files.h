#pragma once

#include <map>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/output/view_writer.h"
#include "engine/protocol/messages.h"
#include "engine/render/render_device.h"

namespace nerf {

// The files of a `rendered` message.
struct RenderedFiles {
  std::map<std::string, std::string> files;  // path by channel
  float far = 0;  // depth that stands for white, in the data set's units; 0 without depth
};

// Writes `channels` of a view into request.out, which is created, as files named after request.id.
// Nothing is synced to the disk. A live frame's files are JPEGs and have depth in 8 bits. After an
// error some files may be there, one of them cut off. scale: training units per unit of the data
// set. Errors: also Cancelled after a stop.
absl::StatusOr<RenderedFiles> WriteRenderedFiles(const ViewPicture& view,
                                                 const protocol::Render& request,
                                                 const ViewChannels& channels, float scale,
                                                 const std::stop_token& stop);

}  // namespace nerf
