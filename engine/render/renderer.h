#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/radiance_field.h"
#include "engine/kernels/ray_marching.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// A rendered view. Rows top to bottom.
struct RenderedView {
  int width = 0, height = 0;
  std::vector<Vec3> colours;     // [height * width] sRGB, composited on the background
  std::vector<float> opacities;  // [height * width] sum of weights, 0 to 1
  std::vector<float> depths;  // [height * width] expected distance along the ray, training units; 0
                              // where opacity is below a tenth
};

struct RenderOptions {
  Vec3 background{1, 1, 1};
  float min_transmittance = 1e-4f;  // a ray stops where less light than this is left
  // Called on the caller's thread between two tiles, a few times a second and more; or unset.
  std::function<void()> between_tiles = nullptr;
};

// The grid as marchers read it; borrows its bits and reaches (EmptyReaches, or none).
kernels::MarchGrid MarchGridOf(const OccupancyGrid& grid,
                               std::span<const uint8_t> empty_reaches = {});

// Renders `camera` (training frame) by marching the occupied cells of `grid`. Bytes do not depend
// on the pool's size. A `stop` ends it within one wave of samples a thread; it then returns false
// and the view is incomplete. Sources: Mildenhall et al. 2020, eq. 3; Mueller et al. 2022,
// section 5.
bool RenderView(const RadianceField& field, const OccupancyGrid& grid,
                const SceneGeometry& geometry, const Camera& camera, const RenderOptions& options,
                ThreadPool* pool, std::stop_token stop, RenderedView* view);

}  // namespace nerf
