#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/parameters/lens_scales.h"
#include "engine/field/trained_model.h"
#include "engine/views/path/camera_path.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// A model or checkpoint, ready to render.
struct LoadedModel {
  TrainState state;
  TrainFileKind kind = TrainFileKind::kModel;
  std::unique_ptr<SceneRenderer> renderer;
  std::vector<LensScale> lenses;                // whose focal lengths the training found
  uint64_t byte_size = 0;                       // memory that it takes
  mutable std::optional<PathScene> path_scene;  // made by PathSceneOf when it is first needed
};

// A model or checkpoint as its file has it.
struct ModelFile {
  TrainState state;
  TrainFileKind kind = TrainFileKind::kModel;
  std::unique_ptr<TrainedModel> model;
  std::vector<LensScale> lenses;  // see LoadedModel::lenses
};

// Reads `path`; see LoadModelFile.
absl::StatusOr<ModelFile> ReadModelFile(const std::string& path,
                                        std::optional<int> as_view = std::nullopt);

// Reads `path` and loads it into `device`, which outlives the model. Errors: NotFound, DataLoss or
// InvalidArgument, naming the path.
// as_view: the training view whose appearance it shows (Method::ShowAsView); nullopt: their mean.
absl::StatusOr<LoadedModel> LoadModelFile(const std::string& path, RenderDevice* device,
                                          std::optional<int> as_view = std::nullopt);

// Adds to an error of a model's path what to do about it: the path that it most likely misspells,
// `file` in a folder that was named in its place, or the command that makes models.
absl::Status WithModelHint(const absl::Status& status, const std::string& path,
                           const std::string& file = "model.safetensors");
template <typename T>
absl::StatusOr<T> WithModelHint(absl::StatusOr<T> result, const std::string& path) {
  if (result.ok()) return result;
  return WithModelHint(result.status(), path);
}

}  // namespace nerf
