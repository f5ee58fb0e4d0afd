#pragma once

#include <span>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/scene/picture_file.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/scene/scene.h"

namespace nerf {

// The size of a picture whose sides are halved `level` times, rounded, at least 1. Level 0: as it
// is.
ReducedSize PictureSizeAt(int level, int width, int height);

// The views with pictures of that size, averages over areas of the full ones, and cameras to match.
// Masks and opacities are averaged too, and colors by them (AreaResized). file: has the pixels
// where the views' images have none, or null; it is read once.
// Requires: level of at least 1.
std::vector<View> ReducedViews(std::span<const View> views, const PictureFile* file, int level,
                               ThreadPool* pool);

}  // namespace nerf
