#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/occupancy_grid.h"
#include "engine/scene/scene.h"
#include "engine/train/occupancy_updater.h"

namespace nerf {

// The occupancy grid in files (docs/use/files.md): tensor occupancy.bits, in checkpoints also
// occupancy.values and, where blocks stay empty, occupancy.blocks: those that have values.

void StoreOccupancyBits(const OccupancyGrid& grid, TensorFile* file);
// Errors: InvalidArgument where the tensor is missing or no grid of the scene's levels.
absl::StatusOr<OccupancyGrid> LoadOccupancyBits(const TensorFile& file,
                                                const SceneGeometry& geometry);
// The same for a model trained with `config`, whose resolution the grid must have.
absl::StatusOr<OccupancyGrid> LoadModelGrid(const TensorFile& file, const SceneGeometry& geometry,
                                            int resolution);

// Bits and values. LoadOccupancy changes nothing where it fails, and does not fail after
// CheckOccupancy. Errors: InvalidArgument where a tensor is missing or does not fit `occupancy`.
void StoreOccupancy(const OccupancyUpdater& occupancy, TensorFile* file);
absl::Status CheckOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                            const OccupancyUpdater& occupancy);
absl::Status LoadOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                           OccupancyUpdater* occupancy);
// Takes the bits of a file whose grid has the same shape; else opens the whole grid.
void InitializeOccupancy(const TensorFile& file, const SceneGeometry& geometry,
                         OccupancyUpdater* occupancy);

}  // namespace nerf
