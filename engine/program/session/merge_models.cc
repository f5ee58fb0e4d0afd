#include "engine/program/session/merge_models.h"

#include <utility>

#include "common/status_macros.h"
#include "engine/field/files/checkpoint.h"
#include "engine/methods/registry.h"
#include "engine/program/session/loaded_model.h"
#include "engine/train/method.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<TensorFile> MergeModels(const std::vector<std::string>& paths) {
  std::vector<ModelPart> parts;
  for (const std::string& path : paths) {
    absl::StatusOr<TensorFile> file = ReadTensorFile(path);
    if (!file.ok()) return WithModelHint(file.status(), path);
    NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(*file, path));
    if (stored.kind != TrainFileKind::kModel) {
      return absl::InvalidArgumentError(
          fmt::format("{} is a checkpoint; models of finished trainings are merged", path));
    }
    if (!parts.empty() && stored.state.config.method != parts[0].state.config.method) {
      return absl::InvalidArgumentError(fmt::format("{}: trained by method {}, {} by {}", path,
                                                    stored.state.config.method, parts[0].path,
                                                    parts[0].state.config.method));
    }
    parts.push_back({path, *std::move(file), std::move(stored.state)});
  }
  if (parts.empty()) return absl::InvalidArgumentError("no models to merge");
  const Method& method = MethodOf(parts[0].state.config);
  return method.Merge(std::move(parts));
}

}  // namespace nerf
