#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/occupancy_grid.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/ray_step.h"
#include "tests/testing/random_floats.h"

namespace nerf {

// A very small training: tables of 2^12 entries per level, a grid of 32^3 cells, 64 steps along the
// box's diagonal. Used by the tests of the training steps.
inline TrainConfig TinyConfig() {
  TrainConfig config;
  Ngp(config).log2_hashmap_size = 12;
  config.grid_resolution = 32;
  config.grid_update_interval = 4;
  config.grid_threshold = 0.01f;  // far below a fresh field's, so that no rounding empties a cell
  config.target_samples = 1024;
  config.max_rays = 1024;
  config.learning_rate = 1e-2f;
  return config;
}

inline SceneGeometry TinyGeometry(int n_levels = 1) {
  SceneGeometry geometry;
  geometry.box = {{-1, -1, -1}, {1, 1, 1}};
  geometry.n_levels = n_levels;
  geometry.near = 0.05f;
  geometry.step = geometry.box.Diagonal() / 64;
  geometry.cone = n_levels > 1 ? 1.0f / 64 : 0;
  // For a contraction that asks for it: as of cameras above the box.
  geometry.frustum = {{0, 0, 3}, {1, 0, 0}, {0, 1, 0}, {0, 0, -1}, 0.5f, 1};
  return geometry;
}

// Rays from a sphere around the box to points in it, with random colors to show.
inline RayBatch TinyBatch(int n_rays, uint32_t step = 0, float learning_rate = 1e-2f) {
  RayBatch batch;
  batch.step = step;
  batch.learning_rate = learning_rate;
  batch.step_scale = step % 2 == 0 ? 1 : 1.5f;
  batch.distortion = 0.5f;  // not 0, so that tests cover it
  batch.n_rays = n_rays;
  const std::vector<Vec3> from = RandomDirections(n_rays, 100 + 4 * step);
  const std::vector<Vec3> to = RandomPoints(n_rays, -0.7f, 0.7f, 101 + 4 * step);
  for (int r = 0; r < n_rays; ++r) {
    const Vec3 origin = from[r] * 2.5f;
    batch.rays.push_back({origin, Normalized(to[r] - origin), 0.05f});
  }
  batch.jitters = RandomFloats(n_rays, 0, 1, 102 + 4 * step);
  batch.targets = RandomPoints(n_rays, 0, 1, 103 + 4 * step);
  batch.backgrounds = RandomPoints(n_rays, 0, 1, 1000 + step);
  return batch;
}

// Every third block and a part of each other one.
inline std::vector<uint64_t> SomeEmptyCells(const OccupancyGrid& grid) {
  std::vector<uint64_t> cells(grid.occupied_blocks.size(), 0xf0f0);
  for (size_t block = 0; block < cells.size(); block += 3) cells[block] = ~uint64_t{0};
  return cells;
}

inline TensorFile Saved(const TrainingStep& step) {
  TensorFile file;
  step.Save(&file);
  return file;
}

// The step's state with a table of large random values instead of the small initial ones, so that
// colors and densities vary and gradients are not tiny. Densities are around 1 / unit.
inline TensorFile LivelyState(const TrainingStep& step) {
  TensorFile file = Saved(step);
  for (const std::string name : {"field.hash_table", "average.field.hash_table"}) {
    Tensor& table = file.tensors.at(name);
    const std::vector<float> values = RandomFloats(table.n_elements(), -1, 1, 77);
    table = TensorFromFloats(values.data(), table.shape, DType::kF32);
  }
  return file;
}

// The batch with rays of three views. Half of them have a depth, near the middle of the box.
inline RayBatch OfViews(RayBatch batch) {
  for (int r = 0; r < batch.n_rays; ++r) batch.views.push_back(r % 3);
  for (int r = 0; r < batch.n_rays; ++r)
    batch.depths.push_back(r % 2 == 0 ? 0 : 2.2f + 0.01f * static_cast<float>(r % 50));
  return batch;
}
// The same batch with four rays for each pixel, which have its target, background, weight and view.
// Requires a multiple of four rays.
inline RayBatch InFours(RayBatch batch) {
  batch.rays_per_pixel = 4;
  const auto of_pixels = [](auto* values) {
    for (size_t r = 0; r < values->size(); ++r) (*values)[r] = (*values)[r / 4 * 4];
  };
  of_pixels(&batch.targets);
  of_pixels(&batch.backgrounds);
  of_pixels(&batch.weights);
  of_pixels(&batch.views);
  return batch;
}
// A lively state with random exposures and appearances of views, where the step learns them.
inline TensorFile LivelyViewState(const TrainingStep& step) {
  TensorFile file = LivelyState(step);
  for (const char* name : {"view.log_gains", "view.appearances"}) {
    const auto held = file.tensors.find(name);
    if (held == file.tensors.end()) continue;
    const std::vector<float> values = RandomFloats(held->second.n_elements(), -0.5f, 0.5f, 78);
    held->second = TensorFromFloats(values.data(), held->second.shape, DType::kF32);
  }
  return file;
}

// The state with NaN in tensor `name`: one value or, in the table, of which a step reads few
// entries, a fifth of them.
inline TensorFile WithNan(TensorFile file, const std::string& name) {
  Tensor& tensor = file.tensors.at(name);
  std::vector<float> values = ToFloats(tensor);
  const size_t stride = name == "field.hash_table" ? 5 : values.size();
  for (size_t i = 0; i < values.size(); i += stride)
    values[i] = std::numeric_limits<float>::quiet_NaN();
  tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
  return file;
}

// Density exponents around ten: walls and empty space, so that most samples are behind the limit.
inline TensorFile WallsState(const TrainingStep& step) {
  TensorFile state = LivelyState(step);
  Tensor& layer = state.tensors.at("field.density_mlp.1");
  std::vector<float> values = ToFloats(layer);
  for (float& value : values) value *= 10;
  layer = TensorFromFloats(values.data(), layer.shape, DType::kF32);
  return state;
}

// The fraction of the first loss that remains after n_steps more on the same batch.
inline double LossShareAfter(int n_steps, RayBatch batch, RayStep* step) {
  const double first = step->RunRays(batch).loss;
  double last = first;
  for (int i = 0; i < n_steps; ++i) {
    ++batch.step;
    last = step->RunRays(batch).loss;
  }
  return last / first;
}

// A camera that sees all of TinyGeometry's box from outside.
inline Camera TinyCamera(int side) {
  Camera camera;
  camera.width = camera.height = side;
  camera.fl_x = camera.fl_y = static_cast<float>(side);
  camera.cx = camera.cy = 0.5f * static_cast<float>(side);
  camera.camera_to_world.m[2][3] = 3;
  return camera;
}

inline const std::vector<std::string>& FieldTensorNames() {
  static const std::vector<std::string> names = {"field.hash_table",    "field.density_mlp.0",
                                                 "field.density_mlp.1", "field.color_mlp.0",
                                                 "field.color_mlp.1",   "field.color_mlp.2"};
  return names;
}

inline bool SameContents(const TensorFile& a, const TensorFile& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end() || other->second.dtype != tensor.dtype ||
        other->second.shape != tensor.shape || other->second.bytes != tensor.bytes) {
      return false;
    }
  }
  return true;
}

}  // namespace nerf
