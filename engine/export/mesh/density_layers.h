#pragma once

#include <memory>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/export/mesh/sample_grid.h"
#include "engine/field/marched_model.h"

namespace nerf {

// Whether rays find the point (training frame) in an occupied cell. The finest level that holds the
// point counts, as in kernels::MarchSamples.
bool IsOccupied(const OccupancyGrid& grid, Vec3 point);

inline constexpr float kNoDensity = -0.5f;

// The density of a model at the points of a grid, a layer at a time. Where views find nothing, that
// is in cells that the occupancy grid calls empty, it is 0. Borrows model and pool.
class DensityLayers {
 public:
  // level: density of the surface, 1 / training unit. time: see RayTile::time.
  DensityLayers(const MarchedModel& model, const SampleGrid& grid, float level, float time,
                ThreadPool* pool);

  // values[y * size[0] + x] of layer z: kNoDensity without, 0 at `level`, up to 0.5 above. The
  // outermost points of the grid count as empty, so that a surface of 0 is closed.
  void Evaluate(int z, std::vector<float>* values);

 private:
  void EvaluateRow(int y, int z, int thread, float* values);

  const MarchedModel& model_;
  const SampleGrid grid_;
  const float level_;
  ThreadPool* const pool_;
  std::vector<std::unique_ptr<RadianceField::Workspace>> workspaces_;  // of the threads
};

}  // namespace nerf
