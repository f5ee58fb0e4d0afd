#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/export/files/export_axes.h"
#include "engine/methods/splats/splat_cloud.h"

namespace nerf {

// A record of a .spz file of a scene that is exported about a local origin: three doubles, to be
// added to positions. Readers skip records that they do not know. The upper half of its type stands
// for the writer ("NR").
inline constexpr uint32_t kSpzOriginRecord = 0x4E520001;

// Gaussians as .spz, version 4: positions of 24 bits, all else of 8 but for rotations of 32, each
// kind packed by zstd. Positions have steps of an eighth of the median splat's thinnest deviation,
// where the farthest of them still fits.
// Errors: InvalidArgument for positions or scales that the format does not hold.
// Source: https://github.com/nianticlabs/spz.
absl::StatusOr<std::string> SplatsSpz(const SplatCloud& cloud, const ExportAxes& axes,
                                      ThreadPool* pool);

}  // namespace nerf
