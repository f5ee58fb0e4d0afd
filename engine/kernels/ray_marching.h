#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/ray.h"
#include "engine/kernels/stream.h"

namespace nerf::kernels {

// The occupancy grid as the marcher reads it: nested cubes about `center`, level l of half side
// half_side * 2^l, each of resolution^3 cells, in blocks of 4x4x4 cells of one 64-bit word (bit x +
// 4 y + 16 z), blocks row-major, levels one after another. empty_distances, where there are any,
// say how far around a block nothing is: one a block, 0 where it holds an occupied cell, else d
// where all blocks less than d away along every axis are empty, of the same level and not covered
// by a finer one. A ray then leaves 2 d - 1 blocks at once.
struct MarchGrid {
  const uint64_t* blocks = nullptr;
  Vec3 center;
  float half_side = 1;
  int n_levels = 1;
  int resolution = 128;
  const uint8_t* empty_distances = nullptr;

  NERF_HD int EmptyDistance(size_t block) const {
    if (empty_distances != nullptr) return empty_distances[block];
    return blocks[block] == 0 ? 1 : 0;
  }
};

// Step lengths along a ray: max(step, t * cone), in scene units.
struct MarchSteps {
  float step = 0;
  float cone = 0;

  NERF_HD MarchSteps Scaled(float scale) const { return {step * scale, cone * scale}; }

  // "Stepping space": n(t) grows by one a step. Linear up to step / cone, logarithmic beyond, so a
  // jump over empty space is one subtraction.
  NERF_HD float ToSteps(float t) const {
    if (cone <= 0) return t / step;
    const float turn = step / cone;
    return t <= turn ? t / step : turn / step + std::log(t / turn) / std::log1p(cone);
  }
  NERF_HD float FromSteps(float n) const {
    if (cone <= 0) return n * step;
    const float turn = step / cone;
    return n <= turn / step ? n * step : turn * std::exp((n - turn / step) * std::log1p(cone));
  }
  NERF_HD float Delta(float t) const { return std::max(step, t * cone); }
};

// Of a training ray; no more are marched.
inline constexpr int kMaxSamplesPerRay = 2048;

// A ray on its way through the grid.
struct MarchRay {
  Vec3 origin, direction, inverse_direction;
  float t = 0;        // start of the next interval
  float t_exit = -1;  // where the ray leaves the outermost box; nothing left when t >= t_exit
};

// Starts a ray where it enters the outermost box, shifted by `jitter` (in [0, 1)) steps.
NERF_HD inline MarchRay StartMarch(const MarchGrid& grid, const MarchSteps& steps, const Ray& ray,
                                   float jitter) {
  MarchRay march{ray.origin, ray.direction, {}, 0, -1};
  const float half = grid.half_side * static_cast<float>(1 << (grid.n_levels - 1));
  float t_enter = ray.t_near, t_exit = ray.t_far;
  for (int axis = 0; axis < 3; ++axis) {
    const float d = ray.direction[axis];
    // A finite stand-in for 1 / 0 keeps 0 * inverse from being NaN.
    const float inverse = std::abs(d) > 1e-12f ? 1.0f / d : (d < 0 ? -1e12f : 1e12f);
    march.inverse_direction[axis] = inverse;
    const float a = (grid.center[axis] - half - ray.origin[axis]) * inverse;
    const float b = (grid.center[axis] + half - ray.origin[axis]) * inverse;
    t_enter = std::max(t_enter, std::min(a, b));
    t_exit = std::min(t_exit, std::max(a, b));
  }
  march.t = steps.FromSteps(steps.ToSteps(t_enter) + jitter);
  march.t_exit = t_enter < t_exit ? t_exit : -1;
  return march;
}

// Finds the next up to max_samples intervals whose middle lies in an occupied cell: their middles
// and lengths, in scene units; only counts them where t_middles is null. Returns how many; fewer
// than max_samples means that the ray has left the grid, or that it is so far away that a step no
// longer changes a float. Sources: Amanatides and Woo 1987 for the cell exits; Mueller et al. 2022,
// appendix E, for step lengths and nested grids.
NERF_HD inline int MarchSamples(const MarchGrid& grid, const MarchSteps& steps, int max_samples,
                                MarchRay* ray, float* t_middles, float* deltas,
                                uint32_t* cells = nullptr) {
  const int side = grid.resolution / 4;
  const float cells_per_unit0 = grid.resolution / (2 * grid.half_side);
  const float cell_size0 = 2 * grid.half_side / grid.resolution;
  int n = 0;
  float t = ray->t;
  float t_before = -1;
  while (n < max_samples) {
    const float delta = steps.Delta(t);
    const float middle = t + 0.5f * delta;
    if (middle >= ray->t_exit || !(t > t_before)) {
      ray->t_exit = -1;
      break;
    }
    t_before = t;
    const Vec3 p = ray->origin + ray->direction * middle - grid.center;
    int level = 0;
    if (grid.n_levels > 1) {
      const float distance =
          std::max(std::abs(p.x), std::max(std::abs(p.y), std::abs(p.z))) / grid.half_side;
      if (distance > 1) level = std::min(grid.n_levels - 1, std::ilogb(distance) + 1);
    }
    const float half = grid.half_side * static_cast<float>(1 << level);
    const float cells_per_unit = cells_per_unit0 / static_cast<float>(1 << level);
    int cell[3];
    for (int axis = 0; axis < 3; ++axis) {
      const int c = static_cast<int>((p[axis] + half) * cells_per_unit);
      cell[axis] = std::clamp(c, 0, grid.resolution - 1);
    }
    const size_t block =
        ((static_cast<size_t>(level) * side + cell[2] / 4) * side + cell[1] / 4) * side +
        cell[0] / 4;
    const int reach = grid.EmptyDistance(block);
    const int bit = (cell[0] & 3) + 4 * (cell[1] & 3) + 16 * (cell[2] & 3);
    if (reach == 0 && ((grid.blocks[block] >> bit) & 1) != 0) {
      if (t_middles != nullptr) {
        t_middles[n] = middle;
        deltas[n] = delta;
      }
      if (cells != nullptr) cells[n] = static_cast<uint32_t>(64 * block + bit);
      ++n;
      t += delta;
      continue;
    }
    // Jump out of the empty cell, or of all the empty blocks around.
    const float cell_size = cell_size0 * static_cast<float>(1 << level);
    float t_out = ray->t_exit;
    for (int axis = 0; axis < 3; ++axis) {
      const int c = cell[axis];
      const int low = reach == 0 ? c : 4 * (c / 4 - reach + 1);
      const int high = reach == 0 ? c + 1 : 4 * (c / 4 + reach);
      const float face =
          static_cast<float>(ray->direction[axis] > 0 ? high : low) * cell_size - half;
      t_out = std::min(
          t_out, (face + grid.center[axis] - ray->origin[axis]) * ray->inverse_direction[axis]);
    }
    const float n_now = steps.ToSteps(t);
    const float jump = std::max(1.0f, std::ceil(steps.ToSteps(std::max(t_out, t)) - n_now - 0.5f));
    t = steps.FromSteps(n_now + jump);
  }
  ray->t = t;
  return n;
}

// MarchSamples for many rays at once. A count below max_samples means that the ray is through.
// Shapes: active [n_active], places in `rays`, each at most once; n_found [n_active]; t_middles,
// deltas, cells [n_active, max_samples], of which the first n_found of a row are written.
// Requires: grid.empty_distances, aligned to 4 bytes and whole words of 4; max_samples > 0.
struct MarchRaysParams {
  MarchGrid grid;
  MarchSteps steps;
  int max_samples = 0;
  int n_active = 0;
  const int* active = nullptr;
  MarchRay* rays = nullptr;
  int* n_found = nullptr;
  float* t_middles = nullptr;
  float* deltas = nullptr;
  uint32_t* cells = nullptr;
};

namespace cpu {
void MarchRays(const MarchRaysParams& params);
}  // namespace cpu

// Marching on a device, in waves: each ray takes a few samples, their densities are evaluated, and
// only rays with light left go on. All pointers are to device memory, and no count is known to the
// host.
namespace cuda {

// Of a ray. Rays keep about five, so that a first wave of more marches beyond most rays' end;
// behind the 256th hardly any is left, and one wave takes them all.
inline constexpr int kWaves = 8;
inline constexpr int kWaveSamples[kWaves] = {4, 4, 8, 16, 32, 64, 128, 1792};
static_assert([] {
  int n = 0;
  for (const int samples : kWaveSamples) n += samples;
  return n == kMaxSamplesPerRay;
}());

// Rays whose kept samples are counted together, and how many such counts there are.
inline constexpr uint32_t kRayBlock = 256;
inline constexpr uint32_t RayBlocks(uint32_t ray_capacity) { return ray_capacity / kRayBlock + 1; }

// A ray between two waves.
struct alignas(16) RayState {
  MarchRay march;
  float transmittance = 1;
  uint32_t n_kept = 0;  // samples that light reaches
};

// A ray's samples of one wave: [first, first + n).
struct RaySegment {
  uint32_t first = 0, n = 0;
};

// Shapes: [ray_capacity] for rays, [sample_capacity] for samples, both but where it says otherwise.
// Samples of wave w are the elements that DeviceRange{sample_capacity, counts, w} names. Where more
// are found than fit, *overflow becomes 1, nothing beyond is written, no sample counts as kept, and
// the counts say at least how many there were.
struct MarchParams {
  MarchGrid grid;
  MarchSteps steps;
  const float* step_scale = nullptr;  // of steps; null: 1
  Vec3 box_min, inverse_box_size;     // what the unit cube covers
  float min_transmittance = 0, alpha_threshold = 0;
  // Rays.
  uint32_t ray_capacity = 0;
  const uint32_t* n_rays = nullptr;
  const Ray* rays = nullptr;
  const float* jitters = nullptr;
  RayState* states = nullptr;
  RaySegment* segments = nullptr;  // [kWaves][ray_capacity]
  // Samples.
  uint32_t sample_capacity = 0;
  uint32_t* counts = nullptr;    // [kWaves + 1], 0 at the start; the last one counts kept samples
  uint32_t* overflow = nullptr;  // 0 at the start
  float* t_middles = nullptr;
  float* deltas = nullptr;
  uint32_t* cells = nullptr;  // 64 * block + bit
  uint32_t* ray_of = nullptr;
  Vec3* positions = nullptr;  // unit cube
  float* alphas = nullptr;    // written between two waves; 1 of samples that end their ray
  float* weights = nullptr;   // -1 where a sample does not count
  // Kept samples, ray by ray, in the order of the rays.
  uint32_t* block_sums = nullptr;   // [RayBlocks(ray_capacity)]
  uint32_t* ray_offsets = nullptr;  // [ray_capacity + 1]
  uint32_t* rows = nullptr;         // which sample each kept one is
};

// Puts each ray where it enters the grid.
void StartRays(const MarchParams& params, Stream stream);
// Advances each ray's transmittance over its samples of the wave before, then marches on.
// Traffic: 128 bytes a ray, 36 a sample. The march itself runs twice, to count and to write.
void MarchWave(const MarchParams& params, int wave, Stream stream);
// After the last wave: advances once more and lists the kept samples.
void CompactSamples(const MarchParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
