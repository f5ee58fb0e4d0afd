#include "engine/methods/voxels/voxel_file.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/files/metadata_reader.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/voxels/describe/voxels_settings.h"

namespace nerf {
namespace {

constexpr const char* kBricksName = "field.bricks";
constexpr const char* kVoxelsName = "field.voxels";
constexpr const char* kResolutionName = "voxels.resolution";

uint32_t MapSide(const TrainConfig& config) {
  return static_cast<uint32_t>(
      std::max(Voxels(config).first_resolution, Voxels(config).finest_resolution) / 4);
}

}  // namespace

void StoreVoxelValues(const VoxelGrid& grid, const Buffer<float>& values, const std::string& name,
                      DType dtype, TensorFile* file) {
  const size_t n = grid.n_bricks() * kBrickVoxels;
  std::vector<float> packed(n * kVoxelFloats);
  for (size_t i = 0; i < n; ++i)
    std::copy_n(values.data() + i * kVoxelStride, kVoxelFloats, packed.data() + i * kVoxelFloats);
  file->tensors[name] =
      TensorFromFloats(packed.data(), {static_cast<uint32_t>(n), kVoxelFloats}, dtype);
}

void StoreVoxels(const TrainConfig& config, const VoxelGrid& grid, DType dtype, TensorFile* file) {
  const size_t side = MapSide(config), held = grid.bricks_per_side();
  std::vector<float> map(side * side * side);
  for (const uint32_t place : grid.places()) {
    const size_t x = place % held, y = place / held % held, z = place / (held * held);
    map[(z * side + y) * side + x] = 1;
  }
  const auto s = static_cast<uint32_t>(side);
  file->tensors[kBricksName] = TensorFromFloats(map.data(), {s, s, s}, dtype);
  StoreVoxelValues(grid, grid.values(), kVoxelsName, dtype, file);
  file->metadata[kResolutionName] = MetadataText(grid.resolution());
}

absl::StatusOr<VoxelGrid> LoadVoxels(const TrainConfig& config, const TensorFile& file) {
  const uint32_t side = MapSide(config);
  MetadataReader reader(file);
  int resolution = 0;
  reader.One<int>(kResolutionName, 32, static_cast<int>(side) * 4, &resolution);
  if (reader.status.ok() && !std::has_single_bit(static_cast<unsigned>(resolution)))
    reader.Fail(kResolutionName, "is no power of two");
  NERF_RETURN_IF_ERROR(reader.status);
  NERF_ASSIGN_OR_RETURN(const std::vector<float> map,
                        ReadFloats(file, kBricksName, {side, side, side}));
  const size_t held = resolution / 4;
  std::vector<bool> mask(held * held * held);
  for (size_t z = 0; z < held; ++z) {
    for (size_t y = 0; y < held; ++y) {
      for (size_t x = 0; x < held; ++x)
        mask[(z * held + y) * held + x] = map[(z * side + y) * side + x] != 0;
    }
  }
  // The size is checked before memory is taken for it.
  const auto n = static_cast<uint32_t>(std::count(mask.begin(), mask.end(), true)) * kBrickVoxels;
  NERF_RETURN_IF_ERROR(ReadFloats(file, kVoxelsName, {n, kVoxelFloats}).status());
  VoxelGrid grid(resolution, mask);
  NERF_ASSIGN_OR_RETURN(grid.values(), LoadVoxelValues(grid, file, kVoxelsName));
  return grid;
}

absl::StatusOr<Buffer<float>> LoadVoxelValues(const VoxelGrid& grid, const TensorFile& file,
                                              const std::string& name) {
  const size_t n = grid.n_bricks() * kBrickVoxels;
  NERF_ASSIGN_OR_RETURN(const std::vector<float> packed,
                        ReadFloats(file, name, {static_cast<uint32_t>(n), kVoxelFloats}));
  Buffer<float> values(n * kVoxelStride);
  for (size_t i = 0; i < n; ++i)
    std::copy_n(packed.data() + i * kVoxelFloats, kVoxelFloats, values.data() + i * kVoxelStride);
  return values;
}

}  // namespace nerf
