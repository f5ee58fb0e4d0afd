#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/view_style.h"
#include "engine/program/written_views/rgbaz_file.h"
#include "engine/views/render/render_device.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {

// Writes the channels that the request names, else RGB, into its folder, which is created, as files
// named after `id`. The answer has these files, their channels, and the depth that stands for
// white. Nothing is synced to the disk. A live frame's files are JPEGs and have depth in 8 bits.
// After an error some files may be there, one of them cut off. Errors: also Cancelled after a stop.
absl::StatusOr<internal::Rendered> WriteRenderedFiles(
    const ViewPicture& view, const std::string& id, const internal::Render& request,
    const ViewStyle& style, const SeenFrom& seen_from, const std::stop_token& stop);

}  // namespace nerf
