#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/export/files/export_axes.h"
#include "engine/methods/splats/splat_cloud.h"

namespace nerf {

// Gaussians as .sog, version 2: a zip archive of meta.json and lossless WebP pictures with a pixel
// for each splat. Positions have 16 bits, rotations 26, opacities 8; scales and colors are numbers
// of codebooks, colors that depend on the direction of a palette (SogPaletteSize). The same bytes
// for any number of threads. meta.json has the scene's local origin as `origin`. Requires: at least
// one splat. Errors: ResourceExhausted where libwebp has too little memory.
// Source: https://developer.playcanvas.com/user-manual/gaussian-splatting/formats/sog.
absl::StatusOr<std::string> SplatsSog(const SplatCloud& cloud, const ExportAxes& axes,
                                      ThreadPool* pool);

}  // namespace nerf
