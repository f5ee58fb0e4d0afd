#include "engine/export/files/seen_cells.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>

#include "engine/export/mesh/surface_points.h"

namespace nerf {
namespace {

constexpr int kSeenViewSide = 160;  // pixels: a cell has one or more
constexpr int kSeenMargin = 40;     // pixels around it: people look beside what a photograph shows
constexpr int kSeenSamples = 32;    // of a ray at a time
constexpr float kMinSeenWeight = 1 / 256.0f;

// Calls hit with each cell, 64 block + bit, that stops a ray's light.
template <typename Hit>
void FollowRay(const MarchedModel& model, const kernels::MarchGrid& grid,
               const kernels::MarchSteps& steps, const Ray& ray, float min_transmittance,
               RadianceField::Workspace* workspace, const Hit& hit) {
  kernels::MarchRay march = kernels::StartMarch(grid, steps, ray, 0.5f);
  std::array<float, kSeenSamples> middles, deltas, sigmas;
  std::array<uint32_t, kSeenSamples> cells;
  std::array<Vec3, kSeenSamples> points;
  float transmittance = 1;
  for (int n = kSeenSamples; n == kSeenSamples && transmittance > min_transmittance;) {
    n = kernels::MarchSamples(grid, steps, kSeenSamples, &march, middles.data(), deltas.data(),
                              cells.data());
    for (int i = 0; i < n; ++i) points[i] = ray.origin + ray.direction * middles[i];
    model.field().Density(n, points.data(), sigmas.data(), workspace);
    for (int i = 0; i < n && transmittance > min_transmittance; ++i) {
      const float weight = transmittance * -std::expm1(-sigmas[i] * deltas[i]);
      transmittance -= weight;
      if (weight >= kMinSeenWeight) hit(cells[i]);
    }
  }
}

}  // namespace

SeenCells::SeenCells(const MarchedModel& model, const SceneGeometry& geometry,
                     std::span<const Camera> cameras, float min_transmittance, ThreadPool* pool,
                     const std::stop_token& stop)
    : resolution_(model.grid().resolution) {
  int n_slots = 0;
  for (const uint64_t block : model.grid().occupied_blocks) {
    slots_.push_back(block == 0 ? -1 : n_slots++);
  }
  masks_.resize(size_t{64} * n_slots);
  const kernels::MarchGrid grid = MarchGridOf(model.grid(), model.empty_distances());
  const kernels::MarchSteps steps{geometry.step, geometry.cone};
  std::vector<std::unique_ptr<RadianceField::Workspace>> workspaces;
  for (int i = 0; i < pool->n_threads(); ++i) {
    workspaces.push_back(model.field().NewWorkspace(kSeenSamples));
  }
  const size_t n_cameras = std::min(cameras.size(), kMaxCameras);
  for (size_t i = 0; i < n_cameras; ++i) {
    Camera camera = PinholeIn(cameras[i * cameras.size() / n_cameras], kSeenViewSide);
    camera.width += 2 * kSeenMargin;
    camera.height += 2 * kSeenMargin;
    camera.cx += kSeenMargin;
    camera.cy += kSeenMargin;
    positions_.push_back(camera.camera_to_world.Column(3));
    pool->ParallelFor(camera.height, [&](int64_t y, int thread) {
      for (int x = 0; x < camera.width && !stop.stop_requested(); ++x) {
        Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
        ray.t_near = geometry.near;
        ray.t_far = std::min(ray.t_far, geometry.far);
        const auto mark = [&](uint32_t cell) {
          uint64_t& mask = masks_[size_t{64} * slots_[cell / 64] + cell % 64];
          std::atomic_ref(mask).fetch_or(uint64_t{1} << i, std::memory_order_relaxed);
        };
        FollowRay(model, grid, steps, ray, min_transmittance, workspaces[thread].get(), mark);
      }
    });
  }
}

uint64_t SeenCells::CamerasOf(int level, int x, int y, int z) const {
  const int n = resolution_;
  if (std::min({x, y, z}) < 0 || std::max({x, y, z}) >= n) return 0;
  const size_t side = n / 4;
  const int32_t slot = slots_[((level * side + z / 4) * side + y / 4) * side + x / 4];
  return slot < 0 ? 0 : masks_[size_t{64} * slot + x % 4 + 4 * (y % 4) + 16 * (z % 4)];
}

}  // namespace nerf
