#include "engine/scene/reduce_views.h"

#include <cstdint>
#include <vector>

namespace nerf {
namespace {

int64_t AreaOf(const ReducedSize& size) { return int64_t{size.width} * size.height; }

void ReduceTo(const ReducedSize& size, ViewDescription* view, Reduction* reduction) {
  const ReducedSize before{view->camera.width, view->camera.height};
  if (size.width >= before.width && size.height >= before.height) return;
  view->camera = Resized(view->camera, size.width, size.height);
  if (AreaOf(before) > AreaOf(reduction->from)) *reduction = {before, size};
}

}  // namespace

uint64_t DecodedBytes(const std::vector<ViewDescription>& views) {
  uint64_t bytes = 0;
  for (const ViewDescription& view : views) bytes += view.DecodedBytes();
  return bytes;
}

Reductions ReduceViews(const SceneOptions& options, SceneDescription* description) {
  Reductions reductions;
  for (ViewDescription& view : description->train) {
    ReduceTo(FitSide(view.camera.width, view.camera.height, options.max_side), &view,
             &reductions.train);
  }
  for (ViewDescription& view : description->test) {
    ReducedSize size = FitSide(view.camera.width, view.camera.height, options.max_side);
    if (options.max_test_pixels > 0) {
      size = FitPixels(size.width, size.height, options.max_test_pixels);
    }
    ReduceTo(size, &view, &reductions.test);
  }
  description->image_bytes = DecodedBytes(description->train) + DecodedBytes(description->test);
  return reductions;
}

}  // namespace nerf
