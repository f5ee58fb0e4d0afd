#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/export/files/baked_model.h"
#include "engine/export/files/viewer_file.h"
#include "engine/program/exports/export_files.h"
#include "engine/program/exports/export_size.h"
#include "engine/program/session/loaded_model.h"

namespace nerf {

// A viewer file (engine/export/files/viewer_file.h), with a baked model where ExportSpec.baked.
class ViewerExport {
 public:
  // Finds what the file's size follows from: the path that the viewer plays and, of a baked model,
  // its cells. path: of the model's file; `model` outlives this. Errors: InvalidArgument for models
  // that the viewer cannot draw; Cancelled; those of reading the model.
  static absl::StatusOr<ViewerExport> Prepare(const std::string& path, const ModelFile& model,
                                              const ExportRequest& request, ThreadPool* pool,
                                              const std::stop_token& stop,
                                              const ExportProgress& progress);

  // Exact without a baked model.
  ExportSize Size() const;
  // How a model is baked, for people: "baking 9 cells with 33 nodes a side: "; else empty.
  std::string PlanWords() const;
  // Errors: Cancelled; those of BakeModel.
  absl::StatusOr<ExportedFile> Make(ThreadPool* pool, const std::stop_token& stop,
                                    const ExportProgress& progress) const;

 private:
  explicit ViewerExport(const ModelFile* model) : model_(model) {}

  const ModelFile* model_;
  ViewerScene scene_;
  std::string html_;  // without a baked model
  std::optional<BakePlan> plan_;
};

}  // namespace nerf
