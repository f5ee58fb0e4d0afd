#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/aabb.h"
#include "engine/base/export_bytes.h"
#include "engine/base/parallel_for.h"
#include "engine/field/trained_model.h"
#include "engine/scene/camera.h"
#include "engine/views/render/renderer.h"

namespace nerf {

// A point of a surface, training frame.
struct SurfacePoint {
  Vec3 position;
  Vec3 normal;  // towards the cameras, unit length
  Vec3 color;   // sRGB, 0 to 1
};

struct SurfacePointOptions {
  // Where points are kept: points that to_box brings into the box.
  Aabb box;
  Mat34 to_box;    // from the training frame
  float cell = 0;  // training units; at most one point in a cube of this side
  float near = 0;  // where rays start, training units
  RenderOptions render;
  int max_views = kMaxPointViews;  // of the cameras, evenly chosen
};

// Points that the cameras' rendered depths agree on: at least two other views, or all of fewer,
// have the same distance up to two cells or 1% of it. Points of one cell become their mean. Cameras
// are replaced by pinholes in the same place. after_view is called with the number of views done.
// Empty if `stop` was requested. Bytes do not depend on the pool's size.
// Source: the consistency check of Schoenberger et al. 2016, "Pixelwise view selection".
std::vector<SurfacePoint> FindSurfacePoints(const TrainedModel& model,
                                            std::span<const Camera> cameras,
                                            const SurfacePointOptions& options, ThreadPool* pool,
                                            const std::stop_token& stop,
                                            const std::function<void(int n_views)>& after_view);

// The most points that FindSurfacePoints can find: one for each pixel, and for each cell of the
// box.
double MaxSurfacePoints(std::span<const Camera> cameras, const SurfacePointOptions& options);

// The pinhole camera that such a camera is replaced by, with at most max_side pixels a side.
Camera PinholeIn(const Camera& camera, int max_side);
// Those that together show what the camera does: the six faces of a cube about a panorama; of
// others PinholeIn.
std::vector<Camera> PinholesIn(const Camera& camera, int max_side);

}  // namespace nerf
