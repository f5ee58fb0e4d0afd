#include "engine/render/renderer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/kernels/view_rays.h"

namespace nerf {
namespace {

constexpr int kTileSide = kernels::kViewTileSide;
constexpr int kTileRays = kernels::kViewTileRays;
static_assert(kTileRays <= TrainedModel::kMaxTileRays);
// Tiles of one call of ParallelFor, so that a render that often pauses does not look through the
// list of a large view each time.
constexpr size_t kTilesAtOnce = 1024;

// One thread's scratch for a tile.
struct TileWorkspace {
  explicit TileWorkspace(const TrainedModel& model) : model(model.NewWorkspace()) {}
  std::unique_ptr<TrainedModel::Workspace> model;
  Ray rays[kTileRays];
  RenderedRay rendered[kTileRays];
  int pixels[kTileRays];  // of the rays
};

// What the tiles of a pass share.
struct RenderJob {
  const TrainedModel& model;
  float near;
  const Camera& camera;
  const RenderOptions& options;
  int stride;  // between two pixels of the pass; those of earlier passes are left out
  RenderedView* view;
};

// Every stride-th pixel of every stride-th row of a tile of kTileSide x kTileSide such pixels, but
// those of earlier passes. Returns how many.
int StartTile(const RenderJob& job, int tile_x, int tile_y, TileWorkspace* w) {
  const int stride = job.stride, side = kTileSide * stride;
  const int x0 = tile_x * side, x1 = std::min(x0 + side, job.camera.width);
  const int y0 = tile_y * side, y1 = std::min(y0 + side, job.camera.height);
  const bool is_first_pass = stride == job.options.first_stride;
  int n_rays = 0;
  for (int y = y0; y < y1; y += stride) {
    for (int x = x0; x < x1; x += stride) {
      if (!is_first_pass && x % (2 * stride) == 0 && y % (2 * stride) == 0) continue;
      w->rays[n_rays] = CameraRay(job.camera, x + 0.5f, y + 0.5f);
      w->rays[n_rays].t_near = job.near;
      w->pixels[n_rays] = y * job.camera.width + x;
      ++n_rays;
    }
  }
  return n_rays;
}

// Returns false when it was stopped on the way.
bool RenderTile(const RenderJob& job, int tile_x, int tile_y, const std::stop_token& stop,
                TileWorkspace* w) {
  const auto n_rays = static_cast<size_t>(StartTile(job, tile_x, tile_y, w));
  const RayTile tile{.rays = {w->rays, n_rays},
                     .background = job.options.background,
                     .min_transmittance = job.options.min_transmittance,
                     .time = job.camera.time,
                     .axis = job.camera.camera_to_world.Column(2) * -1.0f};
  if (!job.model.RenderRays(tile, stop, w->model.get(), w->rendered)) return false;
  for (size_t r = 0; r < n_rays; ++r) {
    const RenderedRay& ray = w->rendered[r];
    const int pixel = w->pixels[r];
    job.view->colors[pixel] = ray.color;
    job.view->opacities[pixel] = ray.opacity;
    job.view->depths[pixel] = ray.depth;
  }
  return true;
}

// Copies the pixels of a grid of `stride` to those below and to the right of them.
template <typename T>
void Spread(int width, int stride, std::vector<T>* values) {
  const int height = static_cast<int>(values->size()) / width;
  for (int y = 0; y < height; ++y) {
    const T* const from = values->data() + static_cast<size_t>(y - y % stride) * width;
    T* const to = values->data() + static_cast<size_t>(y) * width;
    for (int x = 0; x < width; ++x) to[x] = from[x - x % stride];
  }
}

}  // namespace

struct ViewRender::Work {
  const TrainedModel& model;
  const float near;
  const Camera camera;
  const RenderOptions options;
  RenderedView view = {};
  int stride;                   // of the pass at work; 0 behind the last
  int tiles_x = 0;              // of the pass
  std::vector<int> tiles = {};  // of the pass, those left
  std::vector<std::unique_ptr<TileWorkspace>> workspaces = {};  // of threads

  void BeginPass() {
    const int side = kTileSide * stride;
    tiles_x = (camera.width + side - 1) / side;
    tiles.resize(static_cast<size_t>(tiles_x) * ((camera.height + side - 1) / side));
    std::iota(tiles.begin(), tiles.end(), 0);
  }
};

ViewRender::ViewRender(const TrainedModel& model, float near, const Camera& camera,
                       const RenderOptions& options)
    : work_(new Work{.model = model,
                     .near = near,
                     .camera = camera,
                     .options = options,
                     .stride = options.first_stride}) {
  NERF_CHECK(std::has_single_bit(static_cast<unsigned>(options.first_stride)));
  const size_t n_pixels = static_cast<size_t>(camera.width) * camera.height;
  work_->view.width = camera.width;
  work_->view.height = camera.height;
  work_->view.colors.resize(n_pixels);
  work_->view.opacities.resize(n_pixels);
  work_->view.depths.resize(n_pixels);
  work_->BeginPass();
}

ViewRender::ViewRender(ViewRender&&) noexcept = default;
ViewRender::~ViewRender() = default;

bool ViewRender::Advance(ThreadPool* pool, const std::function<bool()>& pause,
                         const std::stop_token& stop) {
  Work& work = *work_;
  NERF_CHECK(!finished());
  const RenderJob job{work.model, work.near, work.camera, work.options, work.stride, &work.view};
  work.workspaces.resize(pool->n_threads());
  std::atomic<bool> paused = false;
  const auto render = [&](int64_t i, int thread) {
    if (paused || stop.stop_requested()) return;
    std::unique_ptr<TileWorkspace>& workspace = work.workspaces[thread];
    if (!workspace) workspace = std::make_unique<TileWorkspace>(work.model);
    int& tile = work.tiles[i];
    if (RenderTile(job, tile % work.tiles_x, tile / work.tiles_x, stop, workspace.get())) tile = -1;
    if (thread == 0 && pause && pause()) paused = true;
  };
  while (!work.tiles.empty()) {
    if (paused || stop.stop_requested()) return false;
    const size_t n = std::min(kTilesAtOnce, work.tiles.size());
    pool->ParallelFor(static_cast<int64_t>(n), render);
    const auto end = work.tiles.begin() + static_cast<ptrdiff_t>(n);
    work.tiles.erase(std::remove(work.tiles.begin(), end, -1), end);
  }
  work.stride /= 2;
  if (!finished()) work.BeginPass();
  return true;
}

bool ViewRender::finished() const { return work_->stride == 0; }

RenderedView ViewRender::TakeView() {
  if (finished()) return std::move(work_->view);
  RenderedView view = work_->view;
  const int done = 2 * work_->stride;
  Spread(view.width, done, &view.colors);
  Spread(view.width, done, &view.opacities);
  Spread(view.width, done, &view.depths);
  return view;
}

}  // namespace nerf
