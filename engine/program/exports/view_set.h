#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/program/exports/export_files.h"
#include "engine/program/session/loaded_model.h"

namespace nerf {

// The most bytes that MakeViewSet writes. Errors: those of CamerasOf.
absl::StatusOr<double> MaxViewSetBytes(const ModelFile& model, const ExportRequest& request);

// Makes a data set of views that are rendered through the cameras of CamerasOf, for nerfstudio and
// other trainers: transforms.json, images/NAME.png and depths/NAME.npy. `path` is a folder, or an
// archive of these files if it ends in .zip. Depths are
// thousandths of the data set's unit, nerfstudio's default, along the camera's axis or, for lenses
// that bend, along the ray; 0 where nothing is. Views have at most kMaxDefaultViewPixels; lenses
// that transforms.json does not know become pinholes. It appears whole or not at all.
// Errors: those of ViewFiles, CamerasOf and writing; Cancelled.
absl::StatusOr<ExportedFile> MakeViewSet(const ModelFile& model, const ExportRequest& request,
                                         const std::string& path, ThreadPool* pool,
                                         const std::stop_token& stop,
                                         const ExportProgress& progress);

}  // namespace nerf
