#include "engine/train/shown_pixels.h"

#include <algorithm>
#include <cmath>

#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/kernels/ray_sampling.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxPixels = uint64_t{1} << 30;

// A block of cells of which some may hold something.
struct Cube {
  Vec3 min;
  float side = 0;
};

std::vector<Cube> CubesOf(const OccupancyGrid& grid, std::span<const uint64_t> empty) {
  const size_t side = grid.resolution / 4, level_blocks = side * side * side;
  std::vector<Cube> cubes;
  for (size_t b = 0; b < empty.size(); ++b) {
    const int level = static_cast<int>(b / level_blocks);
    const size_t block = b % level_blocks;
    if (~empty[b] == 0 || kernels::IsCoveredBlock(level, block, static_cast<uint32_t>(side)))
      continue;
    const Aabb box = grid.box.Scaled(static_cast<float>(1 << level));
    const float size = box.Size().x / static_cast<float>(side);
    const Vec3 at{static_cast<float>(block % side), static_cast<float>(block / side % side),
                  static_cast<float>(block / (side * side))};
    cubes.push_back({box.min + at * size, size});
  }
  return cubes;
}

struct PixelBox {
  int x_begin = 0, y_begin = 0, x_end = 0, y_end = 0;
};

// The pixels whose rays may meet the cube, and one around them against rounding: all of them if
// part of it is not in front of the camera by a hundredth of its side, none if all of it is not.
PixelBox PixelsOf(const Camera& camera, const Cube& cube) {
  constexpr float kFar = 1e6f;
  float low[2] = {kFar, kFar}, high[2] = {-kFar, -kFar};
  int n_behind = 0;
  const Mat34& pose = camera.camera_to_world;
  for (int corner = 0; corner < 8; ++corner) {
    const Vec3 offset = cube.min +
                        Vec3{static_cast<float>(corner & 1), static_cast<float>(corner >> 1 & 1),
                             static_cast<float>(corner >> 2)} *
                            cube.side -
                        pose.Column(3);
    const float depth = -Dot(pose.Column(2), offset);
    if (depth <= 0.01f * cube.side) {
      ++n_behind;
      continue;
    }
    const float place[] = {camera.fl_x * Dot(pose.Column(0), offset) / depth + camera.cx,
                           camera.cy - camera.fl_y * Dot(pose.Column(1), offset) / depth};
    for (int axis = 0; axis < 2; ++axis) {
      low[axis] = std::min(low[axis], place[axis]);
      high[axis] = std::max(high[axis], place[axis]);
    }
  }
  if (n_behind == 8) return {};
  if (n_behind > 0) return {0, 0, camera.width, camera.height};
  const auto clamped = [](float at, int size) {
    return static_cast<int>(std::clamp(at, 0.0f, static_cast<float>(size)));
  };
  return {clamped(std::floor(low[0]) - 1, camera.width),
          clamped(std::floor(low[1]) - 1, camera.height),
          clamped(std::ceil(high[0]) + 1, camera.width),
          clamped(std::ceil(high[1]) + 1, camera.height)};
}

// The runs of a view whose first pixel is `first` of all.
std::vector<uint32_t> RunsOf(const Camera& camera, uint64_t first, std::span<const Cube> cubes) {
  const auto width = static_cast<uint64_t>(camera.width);
  const uint64_t n_pixels = width * static_cast<uint64_t>(camera.height);
  if (n_pixels == 0) return {};
  const uint64_t first_run = first / kernels::kRunPixels;
  const uint64_t n_runs = (first + n_pixels - 1) / kernels::kRunPixels - first_run + 1;
  // How many more cubes a run shows than the run before it.
  std::vector<int> changes(n_runs + 1);
  for (const Cube& cube : cubes) {
    const PixelBox box = PixelsOf(camera, cube);
    if (box.x_begin >= box.x_end || box.y_begin >= box.y_end) continue;
    if (box.x_end - box.x_begin == camera.width && box.y_end - box.y_begin == camera.height) {
      changes.assign(n_runs + 1, 0);
      changes[0] = 1;
      break;
    }
    for (int y = box.y_begin; y < box.y_end; ++y) {
      const uint64_t row = first + y * width;
      ++changes[(row + box.x_begin) / kernels::kRunPixels - first_run];
      --changes[(row + box.x_end - 1) / kernels::kRunPixels - first_run + 1];
    }
  }
  std::vector<uint32_t> runs;
  int n_shown = 0;
  for (uint64_t run = 0; run < n_runs; ++run) {
    n_shown += changes[run];
    if (n_shown > 0) runs.push_back(static_cast<uint32_t>(first_run + run));
  }
  return runs;
}

}  // namespace

std::vector<uint32_t> FindShownRuns(std::span<const View> views, const OccupancyGrid& grid,
                                    std::span<const uint64_t> empty, ThreadPool* pool,
                                    const std::stop_token& stop) {
  std::vector<uint64_t> first_pixels{0};
  for (const View& view : views) {
    first_pixels.push_back(first_pixels.back() +
                           static_cast<uint64_t>(view.camera.width) * view.camera.height);
  }
  if (first_pixels.back() > kMaxPixels) return {};
  const std::vector<Cube> cubes = CubesOf(grid, empty);
  std::vector<std::vector<uint32_t>> of_views(views.size());
  pool->ParallelFor(static_cast<int64_t>(views.size()), [&](int64_t i, int) {
    if (!stop.stop_requested()) of_views[i] = RunsOf(views[i].camera, first_pixels[i], cubes);
  });
  if (stop.stop_requested()) return {};
  std::vector<uint32_t> runs;
  for (const std::vector<uint32_t>& of_view : of_views) {
    // Two views may share a run.
    const bool repeats = !runs.empty() && !of_view.empty() && of_view.front() == runs.back();
    runs.insert(runs.end(), of_view.begin() + (repeats ? 1 : 0), of_view.end());
  }
  return runs;
}

}  // namespace nerf
