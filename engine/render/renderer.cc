#include "engine/render/renderer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/field/ray_wave.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/ray_marching.h"
#include "engine/kernels/view_rays.h"

namespace nerf {
namespace {

constexpr int kTileSide = kernels::kViewTileSide;
constexpr int kTileRays = kernels::kViewTileRays;
// Of a large view, so that work that paused looks through no long list.
constexpr size_t kTilesAtOnce = 1024;
constexpr int kWaveSamples = 4;  // of a ray between two looks at its transmittance

struct RayState : kernels::ViewAccumulator {
  bool done = false;
};

// One thread's scratch for a tile.
struct TileWorkspace {
  explicit TileWorkspace(const RadianceField& field)
      : field(field.NewWorkspace(kTileRays * kWaveSamples)) {}
  std::unique_ptr<RadianceField::Workspace> field;
  RayState rays[kTileRays];
  kernels::MarchRay marches[kTileRays];
  RayWave wave;
  Vec3 positions[kTileRays * kWaveSamples], directions[kTileRays * kWaveSamples],
      colors[kTileRays * kWaveSamples];
  float sigmas[kTileRays * kWaveSamples], alphas[kTileRays * kWaveSamples],
      t_middles[kTileRays * kWaveSamples], deltas[kTileRays * kWaveSamples];
  int ray_of[kTileRays * kWaveSamples];
  int pixels[kTileRays];               // of rays
  int seen[kTileRays * kWaveSamples];  // samples that show, with their weights
  float seen_weights[kTileRays * kWaveSamples];
};

// What the tiles of a pass share.
struct RenderJob {
  const RadianceField& field;
  kernels::MarchGrid grid;
  kernels::MarchSteps steps;
  float near;
  const Camera& camera;
  const RenderOptions& options;
  int stride;  // between two pixels of the pass; those of earlier passes are left out
  RenderedView* view;
};

int MarchWave(const RenderJob& job, int n_rays, TileWorkspace* w) {
  w->wave.active.clear();
  for (int r = 0; r < n_rays; ++r) {
    if (!w->rays[r].done) w->wave.active.push_back(r);
  }
  w->wave.March(job.grid, job.steps, kWaveSamples, w->marches);
  int n = 0;
  for (size_t i = 0; i < w->wave.active.size(); ++i) {
    const int r = w->wave.active[i], n_found = w->wave.n_found[i];
    if (n_found < kWaveSamples) w->rays[r].done = true;
    for (size_t found = i * kWaveSamples; found < i * kWaveSamples + n_found; ++found, ++n) {
      w->t_middles[n] = w->wave.t_middles[found];
      w->deltas[n] = w->wave.deltas[found];
      w->positions[n] = w->marches[r].origin + w->marches[r].direction * w->t_middles[n];
      w->ray_of[n] = r;
    }
  }
  return n;
}

// Takes the light that each sample stops from its ray. Returns the number of samples that show.
int WeighWave(const RenderJob& job, int n, TileWorkspace* w) {
  int n_seen = 0;
  for (int i = 0; i < n; ++i) {
    RayState& ray = w->rays[w->ray_of[i]];
    if (ray.Ended()) continue;
    const float weight =
        ray.AddSample(w->alphas[i], w->t_middles[i], job.options.min_transmittance);
    if (ray.Ended()) ray.done = true;
    if (weight == 0) continue;
    w->seen[n_seen] = i;
    w->seen_weights[n_seen] = weight;
    w->directions[n_seen] = w->marches[w->ray_of[i]].direction;
    ++n_seen;
  }
  return n_seen;
}

void ColorWave(const RenderJob& job, int n_seen, TileWorkspace* w) {
  job.field.Color(n_seen, w->seen, w->directions, w->colors, w->field.get());
  for (int i = 0; i < n_seen; ++i) {
    w->rays[w->ray_of[w->seen[i]]].AddColor(w->colors[i], w->seen_weights[i]);
  }
}

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
      Ray ray = CameraRay(job.camera, x + 0.5f, y + 0.5f);
      ray.t_near = job.near;
      w->pixels[n_rays] = y * job.camera.width + x;
      w->rays[n_rays] = {};
      w->marches[n_rays] = kernels::StartMarch(job.grid, job.steps, ray, kernels::kViewJitter);
      ++n_rays;
    }
  }
  return n_rays;
}

// Returns false when it was stopped on the way.
bool RenderTile(const RenderJob& job, int tile_x, int tile_y, const std::stop_token& stop,
                TileWorkspace* w) {
  const int n_rays = StartTile(job, tile_x, tile_y, w);
  while (const int n = MarchWave(job, n_rays, w)) {
    if (stop.stop_requested()) return false;
    job.field.Density(n, w->positions, w->sigmas, w->field.get());
    kernels::cpu::Alphas({.n = n, .sigmas = w->sigmas, .deltas = w->deltas, .alphas = w->alphas});
    ColorWave(job, WeighWave(job, n, w), w);
  }
  for (int r = 0; r < n_rays; ++r) {
    const RayState& ray = w->rays[r];
    const int pixel = w->pixels[r];
    job.view->colors[pixel] = ray.ColorOn(job.options.background);
    job.view->opacities[pixel] = ray.Opacity();
    job.view->depths[pixel] = ray.ExpectedDepth();
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
  const RadianceField& field;
  const OccupancyGrid& grid;
  const SceneGeometry geometry;
  const Camera camera;
  const RenderOptions options;
  const std::vector<uint8_t> empty_distances;
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

ViewRender::ViewRender(const RadianceField& field, const OccupancyGrid& grid,
                       const SceneGeometry& geometry, const Camera& camera,
                       const RenderOptions& options)
    : work_(new Work{.field = field,
                     .grid = grid,
                     .geometry = geometry,
                     .camera = camera,
                     .options = options,
                     .empty_distances = EmptyDistances(grid),
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
  const RenderJob job{work.field,
                      MarchGridOf(work.grid, work.empty_distances),
                      {work.geometry.step, work.geometry.cone},
                      work.geometry.near,
                      work.camera,
                      work.options,
                      work.stride,
                      &work.view};
  work.workspaces.resize(pool->n_threads());
  std::atomic<bool> paused = false;
  const auto render = [&](int64_t i, int thread) {
    if (paused || stop.stop_requested()) return;
    std::unique_ptr<TileWorkspace>& workspace = work.workspaces[thread];
    if (!workspace) workspace = std::make_unique<TileWorkspace>(work.field);
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
