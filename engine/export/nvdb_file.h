#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/export/export_axes.h"
#include "engine/export/volume.h"

namespace nerf {

// Whether this program was built with NanoVDB's headers.
bool CanWriteNanoVdb();

// A file of NanoVDB with the grids of VolumeVdb, uncompressed: renderers on GPUs map it as it is.
// Errors: Unimplemented unless CanWriteNanoVdb.
// Source: Museth 2021, "NanoVDB".
absl::StatusOr<std::string> VolumeNanoVdb(const Volume& volume, const ExportAxes& axes);

}  // namespace nerf
