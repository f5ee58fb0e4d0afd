#pragma once

#include "absl/status/statusor.h"
#include "engine/commands/export_files.h"
#include "engine/scene/camera_path_file.h"
#include "engine/training/loaded_model.h"

namespace nerf {

// A camera path for another program: through the cameras of request.camera, or of the photographs.
// Errors: those of ReadViewList and FrameOfTool; InvalidArgument where the frame that the program
// has is not known, or there are no cameras.
absl::StatusOr<ExportedFile> MakePathFile(const ModelFile& model, const ExportRequest& request,
                                          PathTool tool);

}  // namespace nerf
