#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/field/occupancy_grid.h"
#include "engine/scene/scene.h"

namespace nerf {

// Where the pixels lie whose rays can meet a cell that is not in `empty` (FindEmptyCells, not
// empty): runs of kernels::kRunPixels, ascending, by the index over all pixels of all views. The
// other pixels show the background whatever is learned. All views are pinholes without distortion,
// as where FindEmptyCells finds something. None of more than 2^30 pixels, whose list would be too
// large, and after a stop, which takes effect when each thread has finished its view.
std::vector<uint32_t> FindShownRuns(std::span<const View> views, const OccupancyGrid& grid,
                                    std::span<const uint64_t> empty, ThreadPool* pool,
                                    const std::stop_token& stop = {});

}  // namespace nerf
