#include "engine/tool/loaded_model.h"

#include <utility>

#include "common/status_macros.h"
#include "engine/config/tensor_shapes.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/checkpoint.h"
#include "engine/train/tensor_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Memory of the field in fp32 and of the occupancy grid. The file may hold more tensors, in other
// precisions.
uint64_t ModelBytes(const TensorFile& file, const TrainedModel& model) {
  uint64_t n_parameters = 0;
  for (const TensorShape& tensor : FieldTensorShapes({})) {
    const auto found = file.tensors.find(tensor.name);
    if (found != file.tensors.end()) n_parameters += found->second.n_elements();
  }
  return n_parameters * sizeof(float) + model.grid.occupied_blocks.size() * sizeof(uint64_t);
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModelFile(const std::string& path, RenderDevice* device) {
  NERF_ASSIGN_OR_RETURN(TensorFile file, ReadTensorFile(path));
  NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(file, path));
  // Every method trains the same field and stores it in the same tensors.
  absl::StatusOr<TrainedModel> model =
      LoadNgpModel(file, stored.state.config, stored.state.geometry);
  if (!model.ok()) {
    return absl::Status(
        model.status().code(),
        absl::string_view(fmt::format("{}: {}", path, std::string(model.status().message()))));
  }
  // Resolutions that no config can ask for are not tested in the march.
  if (model->grid.resolution != stored.state.config.grid_resolution) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the occupancy grid has {} cells along a side, its config says {}", path,
                    model->grid.resolution, stored.state.config.grid_resolution));
  }
  const uint64_t byte_size = ModelBytes(file, *model);
  TrainState& state = stored.state;
  auto renderer = device->Load(*std::move(model), state.geometry, RenderPrecisionOf(state.config));
  return LoadedModel{std::move(state), stored.kind, std::move(renderer), byte_size};
}

}  // namespace nerf
