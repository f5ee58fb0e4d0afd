#include "engine/train/occupancy_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kValuesName = "occupancy.values";
constexpr const char* kBitsName = "occupancy.bits";
constexpr const char* kBlocksName = "occupancy.blocks";

// The blocks that have a row of occupancy.values; empty: all of them, in their order. Errors:
// InvalidArgument where they do not ascend below n_blocks.
absl::StatusOr<std::vector<int32_t>> LoadBlocks(const TensorFile& file, size_t n_blocks) {
  const auto found = file.tensors.find(kBlocksName);
  if (found == file.tensors.end()) return std::vector<int32_t>();
  const Tensor& tensor = found->second;
  bool fits = tensor.dtype == DType::kI32 && tensor.shape.size() == 1;
  std::vector<int32_t> blocks(fits ? tensor.shape[0] : 0);
  if (fits && !blocks.empty()) {
    std::memcpy(blocks.data(), tensor.bytes.data(), tensor.bytes.size());
    fits = blocks.front() >= 0 && static_cast<size_t>(blocks.back()) < n_blocks &&
           std::ranges::adjacent_find(blocks, std::greater_equal()) == blocks.end();
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} does not list blocks of the grid, in ascending order", kBlocksName));
  }
  return blocks;
}

}  // namespace

void StoreOccupancyBits(const OccupancyGrid& grid, TensorFile* file) {
  const auto side = static_cast<uint32_t>(grid.resolution);
  Tensor tensor{DType::kU8, {static_cast<uint32_t>(grid.n_levels), side, side, side / 8}, {}};
  tensor.bytes.resize(grid.occupied_blocks.size() * sizeof(uint64_t));
  std::memcpy(tensor.bytes.data(), grid.occupied_blocks.data(), tensor.bytes.size());
  file->tensors[kBitsName] = std::move(tensor);
}

absl::StatusOr<OccupancyGrid> LoadOccupancyBits(const TensorFile& file,
                                                const SceneGeometry& geometry) {
  const auto found = file.tensors.find(kBitsName);
  if (found == file.tensors.end())
    return absl::InvalidArgumentError(fmt::format("tensor {} is missing", kBitsName));
  const Tensor& tensor = found->second;
  const std::vector<uint32_t>& s = tensor.shape;
  const bool fits = tensor.dtype == DType::kU8 && s.size() == 4 &&
                    s[0] == static_cast<uint32_t>(geometry.n_levels) && s[1] >= 32 && s[1] <= 256 &&
                    std::has_single_bit(s[1]) && s[2] == s[1] && s[3] == s[1] / 8;
  if (!fits) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is {} [{}], not an occupancy grid of {} levels", kBitsName,
                    DTypeName(tensor.dtype), fmt::join(s, ", "), geometry.n_levels));
  }
  OccupancyGrid grid = FullOccupancyGrid(geometry.box, geometry.n_levels, static_cast<int>(s[1]));
  std::memcpy(grid.occupied_blocks.data(), tensor.bytes.data(), tensor.bytes.size());
  return grid;
}

absl::StatusOr<OccupancyGrid> LoadModelGrid(const TensorFile& file, const SceneGeometry& geometry,
                                            int resolution) {
  NERF_ASSIGN_OR_RETURN(OccupancyGrid grid, LoadOccupancyBits(file, geometry));
  // Resolutions that no config can ask for are not tested in the march.
  if (grid.resolution != resolution) {
    return absl::InvalidArgumentError(
        fmt::format("the occupancy grid has {} cells along a side, its config says {}",
                    grid.resolution, resolution));
  }
  return grid;
}

void StoreOccupancy(const OccupancyUpdater& occupancy, TensorFile* file) {
  const OccupancyGrid& grid = occupancy.grid();
  StoreOccupancyBits(grid, file);
  const float* const values = occupancy.values().data();
  const std::vector<uint64_t>& allowed = occupancy.allowed();
  if (std::ranges::find(allowed, uint64_t{0}) == allowed.end()) {
    const auto side = static_cast<uint32_t>(grid.resolution);
    const auto n_levels = static_cast<uint32_t>(grid.n_levels);
    file->tensors[kValuesName] =
        TensorFromFloats(values, {n_levels, side, side, side}, DType::kF32);
    return;
  }
  std::vector<int32_t> blocks;
  std::vector<float> of_blocks;
  for (size_t block = 0; block < allowed.size(); ++block) {
    if (allowed[block] == 0) continue;
    blocks.push_back(static_cast<int32_t>(block));
    const float* const first = values + block * kernels::kBlockCells;
    of_blocks.insert(of_blocks.end(), first, first + kernels::kBlockCells);
  }
  const auto n_blocks = static_cast<uint32_t>(blocks.size());
  file->tensors[kValuesName] =
      TensorFromFloats(of_blocks.data(), {n_blocks, kernels::kBlockCells}, DType::kF32);
  Tensor list{DType::kI32, {n_blocks}, {}};
  list.bytes.resize(n_blocks * sizeof(int32_t));
  std::memcpy(list.bytes.data(), blocks.data(), list.bytes.size());
  file->tensors[kBlocksName] = std::move(list);
}

absl::Status CheckOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                            const OccupancyUpdater& occupancy) {
  NERF_ASSIGN_OR_RETURN(const OccupancyGrid grid, LoadOccupancyBits(file, geometry));
  NERF_ASSIGN_OR_RETURN(const std::vector<int32_t> blocks,
                        LoadBlocks(file, occupancy.allowed().size()));
  const size_t n_values = file.tensors.contains(kBlocksName) ? blocks.size() * kernels::kBlockCells
                                                             : occupancy.values().size();
  const auto values = file.tensors.find(kValuesName);
  if (values == file.tensors.end() || values->second.dtype != DType::kF32 ||
      values->second.n_elements() != n_values || grid.resolution != occupancy.grid().resolution) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is missing or does not fit the config", kValuesName));
  }
  return absl::OkStatus();
}

absl::Status LoadOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                           OccupancyUpdater* occupancy) {
  NERF_RETURN_IF_ERROR(CheckOccupancy(file, geometry, *occupancy));
  NERF_ASSIGN_OR_RETURN(OccupancyGrid grid, LoadOccupancyBits(file, geometry));
  NERF_ASSIGN_OR_RETURN(const std::vector<int32_t> blocks,
                        LoadBlocks(file, occupancy->allowed().size()));
  occupancy->SetBits(std::move(grid.occupied_blocks));
  const uint8_t* const from = file.tensors.at(kValuesName).bytes.data();
  Buffer<float>& values = occupancy->values();
  if (!file.tensors.contains(kBlocksName)) {
    std::memcpy(values.data(), from, values.byte_size());
    return absl::OkStatus();
  }
  constexpr size_t kRowBytes = kernels::kBlockCells * sizeof(float);
  values.SetZero();
  for (size_t row = 0; row < blocks.size(); ++row) {
    std::memcpy(values.data() + blocks[row] * kernels::kBlockCells, from + row * kRowBytes,
                kRowBytes);
  }
  return absl::OkStatus();
}

void InitializeOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                         OccupancyUpdater* occupancy) {
  occupancy->Reopen();
  absl::StatusOr<OccupancyGrid> grid = LoadOccupancyBits(file, geometry);
  if (grid.ok() && grid->resolution == occupancy->grid().resolution)
    occupancy->SetBits(std::move(grid->occupied_blocks));
}

}  // namespace nerf
