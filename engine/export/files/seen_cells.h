#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/field/marched_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Which photographs show each occupied cell of a model.
class SeenCells {
 public:
  static constexpr size_t kMaxCameras = 64;  // that are asked, of more some

  // Marches small views of the cameras (training frame) with some of what is beside them. A camera
  // sees a cell that stops a 256th of a ray's light. min_transmittance: where rays end. Incomplete
  // once `stop` is requested.
  SeenCells(const MarchedModel& model, const SceneGeometry& geometry,
            std::span<const Camera> cameras, float min_transmittance, ThreadPool* pool,
            const std::stop_token& stop);

  // Bit i: the camera at positions()[i] sees the cell. 0 for empty cells and those beyond the grid.
  uint64_t CamerasOf(int level, int x, int y, int z) const;
  const std::vector<Vec3>& positions() const { return positions_; }

 private:
  const int resolution_;         // cells along a side
  std::vector<int32_t> slots_;   // of each block: its place among those that hold a cell, or -1
  std::vector<uint64_t> masks_;  // [slot][64]
  std::vector<Vec3> positions_;
};

}  // namespace nerf
