#include "engine/train/occupancy_file.h"

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kValuesName = "occupancy.values";
constexpr const char* kBitsName = "occupancy.bits";

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
  const auto side = static_cast<uint32_t>(grid.resolution);
  file->tensors[kValuesName] =
      TensorFromFloats(occupancy.values().data(),
                       {static_cast<uint32_t>(grid.n_levels), side, side, side}, DType::kF32);
  StoreOccupancyBits(grid, file);
}

absl::Status CheckOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                            const OccupancyUpdater& occupancy) {
  NERF_ASSIGN_OR_RETURN(const OccupancyGrid grid, LoadOccupancyBits(file, geometry));
  const auto values = file.tensors.find(kValuesName);
  if (values == file.tensors.end() || values->second.dtype != DType::kF32 ||
      values->second.n_elements() != occupancy.values().size() ||
      grid.resolution != occupancy.grid().resolution) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is missing or does not fit the config", kValuesName));
  }
  return absl::OkStatus();
}

absl::Status LoadOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                           OccupancyUpdater* occupancy) {
  NERF_RETURN_IF_ERROR(CheckOccupancy(file, geometry, *occupancy));
  NERF_ASSIGN_OR_RETURN(OccupancyGrid grid, LoadOccupancyBits(file, geometry));
  occupancy->SetBits(std::move(grid.occupied_blocks));
  std::memcpy(occupancy->values().data(), file.tensors.at(kValuesName).bytes.data(),
              occupancy->values().byte_size());
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
