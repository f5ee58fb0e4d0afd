#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/commands/export_files.h"
#include "engine/training/loaded_model.h"

namespace nerf {

// Makes `folder` a data set of views that are rendered through the cameras of CamerasOf, for
// nerfstudio and other trainers: transforms.json, images/NAME.png and depths/NAME.npy. Depths are
// thousandths of the data set's unit, nerfstudio's default, along the camera's axis or, for lenses
// that bend, along the ray; 0 where nothing is. Views have at most kMaxDefaultViewPixels; lenses
// that transforms.json does not know become pinholes. The folder appears whole or not at all.
// Errors: InvalidArgument where the folder is there and not empty; those of CamerasOf and of
// writing; Cancelled.
absl::StatusOr<ExportedFile> MakeViewSet(const ModelFile& model, const ExportRequest& request,
                                         const std::string& folder, ThreadPool* pool,
                                         const std::stop_token& stop,
                                         const ExportProgress& progress);

}  // namespace nerf
