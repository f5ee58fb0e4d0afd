#include "engine/train/batch/coarse_views.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/trace.h"
#include "engine/scene/camera.h"

namespace nerf {
namespace {

int Halved(int side, int level) { return std::max(1, (side + (1 << level >> 1)) >> level); }

}  // namespace

ReducedSize PictureSizeAt(int level, int width, int height) {
  return {Halved(width, level), Halved(height, level)};
}

std::vector<View> ReducedViews(std::span<const View> views, const PictureFile* file, int level,
                               ThreadPool* pool) {
  NERF_CHECK(level >= 1);
  const TraceSpan span("reduce pictures");
  std::vector<View> reduced(views.size());
  pool->ParallelFor(static_cast<int64_t>(views.size()), [&](int64_t i, int) {
    const View& view = views[i];
    const ReducedSize size = PictureSizeAt(level, view.image.width, view.image.height);
    reduced[i].file = view.file;
    reduced[i].camera = Resized(view.camera, size.width, size.height);
    if (file == nullptr) {
      reduced[i].image = AreaResized(view.image, size.width, size.height);
      return;
    }
    ImageU8 full = view.image;
    const std::span<const uint8_t> pixels = file->Pixels(i);
    full.pixels.assign(pixels.begin(), pixels.end());
    reduced[i].image = AreaResized(full, size.width, size.height);
  });
  return reduced;
}

}  // namespace nerf
