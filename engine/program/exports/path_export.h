#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/program/exports/export_files.h"
#include "engine/program/session/loaded_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/cameras/camera_path_file.h"

namespace nerf {

// The cameras of request.camera, or those of the photographs where it is empty.
struct CamerasToExport {
  std::vector<Camera> cameras;     // training frame
  std::vector<std::string> names;  // of files, each another; empty: their numbers do
  double seconds = 0;              // that a path through them lasts
  bool is_loop = false;            // of keyframes
};

// keep_keyframes: keyframes of a path stay as they are, else they become its views. Errors: those
// of ReadViewList; InvalidArgument for a camera path whose frame is not known, and where there are
// no cameras.
absl::StatusOr<CamerasToExport> CamerasOf(const ModelFile& model, const ExportRequest& request,
                                          bool keep_keyframes);

// A camera path for another program through those cameras. Errors: those of CamerasOf and
// FrameOfTool; InvalidArgument where the frame that the program has is not known.
absl::StatusOr<ExportedFile> MakePathFile(const ModelFile& model, const ExportRequest& request,
                                          PathTool tool);

}  // namespace nerf
