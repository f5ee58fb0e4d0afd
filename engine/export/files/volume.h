#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/export_bytes.h"
#include "engine/base/parallel_for.h"
#include "engine/base/view_style.h"
#include "engine/export/mesh/mesh_export.h"
#include "engine/export/mesh/sample_grid.h"
#include "engine/field/marched_model.h"
#include "engine/scene/scene.h"

namespace nerf {

inline constexpr int kLeafSide = 8;

// The points of a cube of 8x8x8 that hold something, ordered by x, then y, then z.
struct VolumeLeaf {
  std::array<int, 3> origin = {0, 0, 0};        // its lowest point, a multiple of 8
  std::array<uint64_t, kLeafSide> active = {};  // of the points with x: bits 8 y + z
  std::vector<float> densities;                 // 1 / own unit
  std::vector<Vec3> colors;                     // linear light, 0 to 1
};

// Density and color of a model at points of a grid.
struct Volume {
  SampleGrid grid;
  std::vector<VolumeLeaf> leaves;  // none is empty
  size_t n_points = 0;             // that hold something
};

// What MakeVolume makes at most: the points in occupied cells. Errors: Cancelled.
absl::StatusOr<VolumeExtent> OccupiedExtent(const MarchedModel& model,
                                            const SceneGeometry& geometry,
                                            const std::optional<OwnBox>& own_box, int resolution,
                                            ThreadPool* pool, const std::stop_token& stop);

// The points whose cell stops a thousandth of the light or more, with the mean of the colors that
// they have from six sides. own_box, resolution and time: see MeshOptions. Errors: Cancelled;
// InvalidArgument where there are none; ResourceExhausted for more than kMaxVolumePoints.
absl::StatusOr<Volume> MakeVolume(const MarchedModel& model, const SceneGeometry& geometry,
                                  const std::optional<OwnBox>& own_box, int resolution, float time,
                                  ThreadPool* pool, const std::stop_token& stop,
                                  const ExportProgress& progress);

}  // namespace nerf
