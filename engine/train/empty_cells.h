#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/field/occupancy_grid.h"
#include "engine/scene/scene.h"

namespace nerf {

// The pixels of view i, as View::image has them.
using PixelsOfView = std::function<std::span<const uint8_t>(size_t i)>;

// Whether pictures of `camera` can show cells empty together with those of `other`: a pinhole
// without distortion, at the same time.
bool TellsEmptyCells(const Camera& camera, const Camera& other);

// Cells in which pictures with alpha show nothing, one bit a cell as in
// OccupancyGrid::occupied_blocks: a cell whose silhouette and one pixel around it have alpha 0 in
// two views at least, and in a tenth of those that show it, so that few faulty mattes of many
// remove nothing; pictures of nothing do not count. Of up to 100 views. Empty where pictures do
// not tell: one has no alpha, times differ, or lenses distort; and after a stop, which takes effect
// when each thread has finished its picture or row of blocks. Source: Laurentini 1994, "The visual
// hull concept".
std::vector<uint64_t> FindEmptyCells(std::span<const View> views, const PixelsOfView& pixels,
                                     const OccupancyGrid& grid, ThreadPool* pool,
                                     const std::stop_token& stop = {});

}  // namespace nerf
