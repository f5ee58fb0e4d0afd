#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/export/files/export_axes.h"
#include "engine/export/files/volume.h"

namespace nerf {

// Unimplemented unless this program was built with NanoVDB's headers.
absl::Status CanWriteNanoVdb();

// A file of NanoVDB with the grids of VolumeVdb, uncompressed: renderers on GPUs map it as it is.
// Errors: those of CanWriteNanoVdb.
// Source: Museth 2021, "NanoVDB".
absl::StatusOr<std::string> VolumeNanoVdb(const Volume& volume, const ExportAxes& axes);

}  // namespace nerf
