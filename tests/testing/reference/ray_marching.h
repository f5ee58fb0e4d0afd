#pragma once

#include <vector>

#include "engine/base/ray.h"
#include "engine/field/occupancy_grid.h"

namespace nerf::reference {

// One interval of the sampling lattice of a ray.
struct LatticeInterval {
  double t_middle, delta;
  bool occupied;
  // Distance of the middle from the nearest face of its cell (or from where the ray leaves), in
  // steps along the ray: near 0 rounding decides which cell it lies in.
  double margin;
};

// Every interval of the lattice between entering and leaving the outermost box, one after another
// and without any skipping. Intervals are max(step, t * cone) long; the first starts `jitter` steps
// behind the entry. Empty when the ray misses the box.
std::vector<LatticeInterval> MarchLattice(const OccupancyGrid& grid, double step, double cone,
                                          const Ray& ray, double jitter);

}  // namespace nerf::reference
