#include "engine/program/session/loaded_model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/files/nearest_path.h"
#include "common/status_macros.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "engine/methods/registry.h"
#include "fmt/format.h"

namespace nerf {

absl::Status WithModelHint(const absl::Status& status, const std::string& path,
                           const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string hint;
  if (fs::is_directory(path, ignored)) {
    const fs::path inside = fs::path(path) / file;
    if (fs::exists(inside, ignored)) hint = fmt::format("; did you mean {}?", inside.string());
  } else if (!absl::IsNotFound(status)) {
    return status;
  } else if (!NearestPath(path).empty()) {
    return WithNearestPath(status, path);
  }
  if (hint.empty()) hint = "; `nerf-engine train DIR --out RUN` writes RUN/" + file;
  return absl::Status(status.code(), std::string(status.message()) + hint);
}

absl::StatusOr<ModelFile> ReadModelFile(const std::string& path, std::optional<int> as_view) {
  NERF_ASSIGN_OR_RETURN(TensorFile file, ReadTensorFile(path));
  NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(file, path));
  const TrainState& state = stored.state;
  if (as_view.has_value()) {
    const absl::Status shown = MethodOf(state.config).ShowAsView(*as_view, &file);
    if (!shown.ok()) return absl::Status(shown.code(), path + ": " + std::string(shown.message()));
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> model =
      MethodOf(state.config).LoadModel(file, state.config, state.geometry);
  if (!model.ok()) {
    return absl::Status(
        model.status().code(),
        absl::string_view(fmt::format("{}: {}", path, std::string(model.status().message()))));
  }
  absl::StatusOr<std::vector<LensScale>> lenses = ReadLensScales(file);
  if (!lenses.ok()) {
    return absl::Status(lenses.status().code(),
                        path + ": " + std::string(lenses.status().message()));
  }
  return ModelFile{std::move(stored.state), stored.kind, *std::move(model), *std::move(lenses)};
}

absl::StatusOr<LoadedModel> LoadModelFile(const std::string& path, RenderDevice* device,
                                          std::optional<int> as_view) {
  NERF_ASSIGN_OR_RETURN(ModelFile read, ReadModelFile(path, as_view));
  const uint64_t byte_size = read.model->byte_size();
  auto renderer = device->Load(std::move(read.model), read.state.geometry,
                               RenderPrecisionOf(read.state.config));
  return LoadedModel{std::move(read.state),  read.kind, std::move(renderer),
                     std::move(read.lenses), byte_size, std::nullopt};
}

}  // namespace nerf
