#pragma once

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/program/exports/export_files.h"

namespace nerf {

// Splats of a model, fitted to its views and, where request.dataset names the data set that it was
// trained on, to its photographs. Errors: those of MakeModelSplats and of LoadComparedScene;
// InvalidArgument for a data set without any of the photographs.
absl::StatusOr<ExportedFile> MakeSplatFile(const ModelFile& model, const ExportRequest& request,
                                           ThreadPool* pool, const std::stop_token& stop,
                                           const ExportProgress& progress);

}  // namespace nerf
