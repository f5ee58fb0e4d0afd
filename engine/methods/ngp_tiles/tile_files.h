#pragma once

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"
#include "engine/methods/ngp_tiles/tile_cuts.h"

namespace nerf {

// Models and checkpoints of tiles: what method ngp would write of each, every name behind
// TilePrefix, and the cuts. Tiles that are trained jointly have one occupancy grid, one update
// count and one ray count for all, as ngp would write them, without a prefix.

// Moves what a tile has written to the file of all.
void AddTile(int tile, TensorFile part, TensorFile* file);
// The tile's part of a file, as it was written.
TensorFile TileOf(const TensorFile& file, int tile);

void StoreCuts(const TileCuts& cuts, TensorFile* file);
// Errors: InvalidArgument where the tensor is missing, of another shape or no cuts.
absl::StatusOr<TileCuts> LoadCuts(const TensorFile& file, int n_tiles);

}  // namespace nerf
