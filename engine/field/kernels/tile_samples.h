#pragma once

#include <cstdint>

#include "engine/base/vec3.h"
#include "engine/field/kernels/field_outputs.h"
#include "engine/field/kernels/stream.h"

// Samples in the tiles of method ngp-tiles, each a field of its own. All pointers are to device
// memory.
namespace nerf::kernels::cuda {

// A cut between tiles, of a binary tree stored as a heap (engine/methods/ngp_tiles/tile_cuts.h), in
// the frame of the samples' positions. margin: along its axis; 0: none.
struct DeviceTileCut {
  int axis = 0;
  float position = 0, margin = 0;
};

// Lists the samples that have a part in a tile, in any order: *count of them, initially 0, by their
// number in the range, with their weight there (TileCuts::Weights). Sample i is at index sources[i]
// of positions and ray_of, i if sources is null. lists_all: lists all samples in their order, some
// of weight 0, so that what is summed over them does not depend on the order of threads.
struct SelectTileParams {
  DeviceRange range;
  int n_tiles = 1, tile = 0;
  const DeviceTileCut* cuts = nullptr;  // [n_tiles - 1]
  const uint32_t* sources = nullptr;
  const Vec3* positions = nullptr;
  const uint32_t* ray_of = nullptr;  // null: tile_ray_of is not written
  bool lists_all = false;
  // The list; all [range.capacity].
  uint32_t* count = nullptr;
  uint32_t* rows = nullptr;
  float* weights = nullptr;
  Vec3* tile_positions = nullptr;
  uint32_t* tile_ray_of = nullptr;
};

// Adds a tile's densities and colors to those of its samples so far, zeros at first: densities by
// weight, colors by their share of the density.
struct AddTileParams {
  DeviceRange range;  // of the list
  const uint32_t* rows = nullptr;
  const float* weights = nullptr;
  const float* tile_sigmas = nullptr;
  const Vec3* tile_colors = nullptr;
  float* sigmas = nullptr;
  Vec3* colors = nullptr;
};

// For tiles without margins, whose samples have weight 1 or 0 (and are then left out): brings a
// tile's densities and colors to those of its samples, and fetches their gradients [4] of
// kernels/composite.h, 0 for weight 0.
struct TileDensityParams {
  DeviceRange range;  // of the list
  const uint32_t* rows = nullptr;
  const float* weights = nullptr;
  const float* tile_sigmas = nullptr;
  DensityTargets to;  // its range is not read
};
struct TileColorParams {
  DeviceRange range;
  const uint32_t* rows = nullptr;
  const float* weights = nullptr;
  const Vec3* tile_colors = nullptr;
  Vec3* colors = nullptr;
};
struct TileGradientParams {
  DeviceRange range;
  const uint32_t* rows = nullptr;
  const float* weights = nullptr;
  const float* grads = nullptr;
  float* tile_grads = nullptr;
};

void SetTileDensity(const TileDensityParams& params, Stream stream);
void SetTileColor(const TileColorParams& params, Stream stream);
void FetchTileGradient(const TileGradientParams& params, Stream stream);
void SelectTile(const SelectTileParams& params, Stream stream);
void AddTile(const AddTileParams& params, Stream stream);

}  // namespace nerf::kernels::cuda
