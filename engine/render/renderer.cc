#include "engine/render/renderer.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/kernels/activation.h"
#include "engine/kernels/ray_marching.h"
#include "engine/kernels/view_rays.h"
#include "engine/render/ray_wave.h"

namespace nerf {
namespace {

constexpr int kTileSide = kernels::kViewTileSide;
constexpr int kTileRays = kernels::kViewTileRays;
constexpr int kWaveSamples = 4;  // of a ray between two looks at its transmittance

struct RayState : kernels::ViewLight {
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
      colours[kTileRays * kWaveSamples];
  float sigmas[kTileRays * kWaveSamples], alphas[kTileRays * kWaveSamples],
      t_middles[kTileRays * kWaveSamples], deltas[kTileRays * kWaveSamples];
  int ray_of[kTileRays * kWaveSamples];
  int seen[kTileRays * kWaveSamples];  // samples that show, with their weights
  float seen_weights[kTileRays * kWaveSamples];
};

struct RenderJob {
  const RadianceField& field;
  kernels::MarchGrid grid;
  kernels::MarchSteps steps;
  float near;
  const Camera& camera;
  const RenderOptions& options;
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
    if (ray.transmittance < job.options.min_transmittance) continue;
    const float weight = ray.AddSample(w->alphas[i], w->t_middles[i]);
    if (ray.transmittance < job.options.min_transmittance) ray.done = true;
    if (weight == 0) continue;
    w->seen[n_seen] = i;
    w->seen_weights[n_seen] = weight;
    w->directions[n_seen] = w->marches[w->ray_of[i]].direction;
    ++n_seen;
  }
  return n_seen;
}

void ColourWave(const RenderJob& job, int n_seen, TileWorkspace* w) {
  job.field.Colour(n_seen, w->seen, w->directions, w->colours, w->field.get());
  for (int i = 0; i < n_seen; ++i) {
    w->rays[w->ray_of[w->seen[i]]].AddColour(w->colours[i], w->seen_weights[i]);
  }
}

void RenderTile(const RenderJob& job, int tile_x, int tile_y, const std::stop_token& stop,
                TileWorkspace* w) {
  const int x0 = tile_x * kTileSide, y0 = tile_y * kTileSide;
  const int width = std::min(kTileSide, job.camera.width - x0);
  const int height = std::min(kTileSide, job.camera.height - y0);
  const int n_rays = width * height;
  for (int r = 0; r < n_rays; ++r) {
    Ray ray = CameraRay(job.camera, x0 + r % width + 0.5f, y0 + r / width + 0.5f);
    ray.t_near = job.near;
    w->rays[r] = {};
    w->marches[r] = kernels::StartMarch(job.grid, job.steps, ray, kernels::kViewJitter);
  }
  while (const int n = MarchWave(job, n_rays, w)) {
    if (stop.stop_requested()) return;
    job.field.Density(n, w->positions, w->sigmas, w->field.get());
    kernels::cpu::Alphas({.n = n, .sigmas = w->sigmas, .deltas = w->deltas, .alphas = w->alphas});
    ColourWave(job, WeighWave(job, n, w), w);
  }
  for (int r = 0; r < n_rays; ++r) {
    const RayState& ray = w->rays[r];
    const size_t pixel = static_cast<size_t>(y0 + r / width) * job.camera.width + x0 + r % width;
    job.view->colours[pixel] = ray.ColourOn(job.options.background);
    job.view->opacities[pixel] = ray.Opacity();
    job.view->depths[pixel] = ray.ExpectedDepth();
  }
}

}  // namespace

kernels::MarchGrid MarchGridOf(const OccupancyGrid& grid, std::span<const uint8_t> empty_reaches) {
  return {.blocks = grid.occupied_blocks.data(),
          .center = grid.box.Center(),
          .half_side = 0.5f * grid.box.Size().x,
          .n_levels = grid.n_levels,
          .resolution = grid.resolution,
          .empty_reaches = empty_reaches.empty() ? nullptr : empty_reaches.data()};
}

bool RenderView(const RadianceField& field, const OccupancyGrid& grid,
                const SceneGeometry& geometry, const Camera& camera, const RenderOptions& options,
                ThreadPool* pool, std::stop_token stop, RenderedView* view) {
  view->width = camera.width;
  view->height = camera.height;
  const size_t n_pixels = static_cast<size_t>(camera.width) * camera.height;
  view->colours.assign(n_pixels, {});
  view->opacities.assign(n_pixels, 0);
  view->depths.assign(n_pixels, 0);
  const std::vector<uint8_t> empty_reaches = EmptyReaches(grid);
  const RenderJob job{field,
                      MarchGridOf(grid, empty_reaches),
                      {geometry.step, geometry.cone},
                      geometry.near,
                      camera,
                      options,
                      view};
  const int tiles_x = (camera.width + kTileSide - 1) / kTileSide;
  const int tiles_y = (camera.height + kTileSide - 1) / kTileSide;
  std::vector<std::unique_ptr<TileWorkspace>> workspaces(pool->n_threads());
  pool->ParallelFor(static_cast<int64_t>(tiles_x) * tiles_y, [&](int64_t tile, int thread) {
    if (stop.stop_requested()) return;
    if (thread == 0 && options.between_tiles) options.between_tiles();
    if (!workspaces[thread]) workspaces[thread] = std::make_unique<TileWorkspace>(field);
    RenderTile(job, static_cast<int>(tile % tiles_x), static_cast<int>(tile / tiles_x), stop,
               workspaces[thread].get());
  });
  return !stop.stop_requested();
}

}  // namespace nerf
