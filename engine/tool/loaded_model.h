#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/render/render_device.h"
#include "engine/train/checkpoint.h"

namespace nerf {

// A model or checkpoint, ready to render.
struct LoadedModel {
  TrainState state;
  TrainFileKind kind = TrainFileKind::kModel;
  std::unique_ptr<SceneRenderer> renderer;
  uint64_t byte_size = 0;  // memory that it takes
};

// Reads `path` and loads it into `device`, which outlives the model. Errors: NotFound, DataLoss or
// InvalidArgument, naming the path.
absl::StatusOr<LoadedModel> LoadModelFile(const std::string& path, RenderDevice* device);

}  // namespace nerf
