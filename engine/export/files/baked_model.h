#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/crop_box.h"
#include "engine/base/export_bytes.h"
#include "engine/base/parallel_for.h"
#include "engine/export/files/seen_cells.h"
#include "engine/export/mesh/mesh_export.h"
#include "engine/field/marched_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Values in 8 bits: 0 and 255 are the ends.
struct ByteRange {
  float low = 0, high = 1;

  uint8_t Byte(float value) const;
  float Value(float byte) const { return low + byte * ((high - low) / 255); }
};
inline constexpr ByteRange kBakedDensity{-7, 4};     // log(density * distance of two nodes)
inline constexpr ByteRange kBakedBase{-0.5f, 1.5f};  // SeenColor::base
// SeenColor::slope, in 32nds: 0 is a byte. Finer steps cost a third of the file.
inline constexpr ByteRange kBakedSlope{-4, 127 / 32.0f};

// A model as density and color at nodes, for devices that are slow at its networks. A cell has
// (nodes_per_cell + 1)^3 of them, between which values are mixed; neighbors share those on faces.
// The nodes of a block that belong to one of its cells lie one after another, x fastest; blocks are
// in the order of the grid.
// Sources: Hedman et al. 2021 (SNeRG); Yu et al. 2021 (PlenOctrees), whose degree is 2.
struct BakedModel {
  int nodes_per_cell = 2;
  OccupancyGrid grid;  // the model's cells that hold something and that a photograph shows
  std::vector<uint8_t> empty_distances = {};
  std::vector<uint8_t> base = {};    // [node][4]: SeenColor::base, density
  std::vector<uint8_t> slopes = {};  // [3][node][3]
  // What lies behind everything, [height][width][3], width = 2 height: row by the angle from +z,
  // column by that about it from -x on. Empty where views have a background of their own.
  int horizon_height = 0;
  std::vector<uint8_t> horizon = {};

  size_t n_nodes() const { return base.size() / 4; }
};

// The nodes of a block's cells, whose bits these are, as z, y, x in (4 nodes_per_cell + 1)^3.
std::vector<int> BlockNodes(uint64_t bits, int nodes_per_cell);

// How a model is baked.
struct BakePlan {
  SeenCells seen;
  OccupancyGrid grid;  // of the cells to bake, at most 128 a side
  int nodes_per_cell = 2;
  size_t n_cells = 0;
  size_t n_bytes = 0;  // of the model at most, not compressed
};

// The finest nodes that fit into kMaxBakedTextures. cameras: of the photographs, training frame;
// what they do not show is left out. crop: only what lies in it is kept; training frame.
// min_transmittance: where rays end. Errors: Cancelled; InvalidArgument where nothing is left;
// ResourceExhausted, with the numbers, where no nodes fit.
absl::StatusOr<BakePlan> PlanBaking(const MarchedModel& model, const SceneGeometry& geometry,
                                    std::span<const Camera> cameras,
                                    const std::optional<CropBox>& crop, float min_transmittance,
                                    ThreadPool* pool, const std::stop_token& stop);

// The model's density at the nodes, and its colors as the plan's cameras see them. Errors:
// Cancelled; InvalidArgument where nothing is left.
absl::StatusOr<BakedModel> BakeModel(const MarchedModel& model, const BakePlan& plan,
                                     ThreadPool* pool, const std::stop_token& stop,
                                     const ExportProgress& progress);

}  // namespace nerf
