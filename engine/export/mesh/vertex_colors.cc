#include "engine/export/mesh/vertex_colors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace nerf {
namespace {

constexpr int kViews = 5;  // of a vertex
constexpr int kColorBatch = TrainedModel::kMaxTileRays / kViews;
constexpr float kTilt = 0.5773503f;  // tangent of 30 degrees
constexpr float kRayCells = 6;
constexpr float kMinOpacitySum = 0.05f;  // of a vertex's rays; below, nothing is seen there

// Where the rays of a vertex lead.
std::array<Vec3, kViews> ViewsAgainst(Vec3 normal) {
  const Vec3 axis = std::abs(normal.x) < 0.7f ? Vec3{1, 0, 0} : Vec3{0, 1, 0};
  const Vec3 across = Normalized(Cross(normal, axis)), along = Cross(normal, across);
  const Vec3 inward = normal * -1.0f;
  return {inward, Normalized(inward + across * kTilt), Normalized(inward - across * kTilt),
          Normalized(inward + along * kTilt), Normalized(inward - along * kTilt)};
}

Vec3 MeanColor(const RenderedRay* rays, bool has_background) {
  Vec3 sum;
  float opacity = 0;
  for (int view = 0; view < kViews; ++view) {
    sum = sum + rays[view].color;
    opacity += has_background ? 1 : rays[view].opacity;
  }
  if (opacity < kMinOpacitySum) return {0.5f, 0.5f, 0.5f};
  return sum * (1 / opacity);
}

}  // namespace

bool ColorPoints(const MarchedModel& model, std::span<const Vec3> positions,
                 std::span<const Vec3> normals, float cell, float time, ThreadPool* pool,
                 const std::stop_token& stop, Vec3* colors) {
  std::vector<std::unique_ptr<TrainedModel::Workspace>> workspaces;
  for (int i = 0; i < pool->n_threads(); ++i) workspaces.push_back(model.NewWorkspace());
  const size_t n_points = positions.size();
  const auto n_batches = static_cast<int64_t>((n_points + kColorBatch - 1) / kColorBatch);
  pool->ParallelFor(n_batches, [&](int64_t batch, int thread) {
    if (stop.stop_requested()) return;
    const size_t begin = static_cast<size_t>(batch) * kColorBatch;
    const size_t n = std::min<size_t>(kColorBatch, n_points - begin);
    std::vector<Ray> rays;
    for (size_t i = begin; i < begin + n; ++i) {
      for (const Vec3& direction : ViewsAgainst(normals[i])) {
        rays.push_back({positions[i] - direction * cell, direction, 0, kRayCells * cell});
      }
    }
    std::array<RenderedRay, TrainedModel::kMaxTileRays> rendered;
    const RayTile tile = {
        .rays = rays, .background = {0, 0, 0}, .time = time, .axis = rays[0].direction};
    model.RenderRays(tile, {}, workspaces[thread].get(), rendered.data());
    for (size_t i = 0; i < n; ++i) {
      colors[begin + i] = MeanColor(rendered.data() + i * kViews, model.field().HasBackground());
    }
  });
  return !stop.stop_requested();
}

}  // namespace nerf
