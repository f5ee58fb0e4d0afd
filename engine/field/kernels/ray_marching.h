#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/encoded_space.h"
#include "engine/base/ray.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// The occupancy grid as the marcher reads it: nested cubes around `center`. Level l has half side
// half_side * 2^l and resolution^3 cells. 4x4x4 cells form a block, a 64-bit word (bit x + 4 y +
// 16 z); blocks are row-major, levels one after another.
// empty_distances (optional) has one entry per block: 0 if the block has an occupied cell, else a d
// such that all blocks less than d away along every axis are empty, on the same level and not
// covered by a finer one. A ray can then skip that cube of 2 d - 1 blocks a side.
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

  // Stepping space: n(t) grows by one per step. It is linear up to t = step / cone and logarithmic
  // beyond, so a jump over empty space needs no loop over its steps.
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

// A training ray ends after this many samples.
inline constexpr int kMaxSamplesPerRay = 2048;

// A ray's progress through the grid.
struct MarchRay {
  Vec3 origin, direction, inverse_direction;
  float t = 0;        // start of the next interval
  float t_exit = -1;  // where the ray leaves the outermost box; finished when t >= t_exit
};

// Starts a ray `jitter` steps, in [0, 1), behind its entry into the outermost box.
NERF_HD inline MarchRay StartMarch(const MarchGrid& grid, const MarchSteps& steps, const Ray& ray,
                                   float jitter) {
  MarchRay march{ray.origin, ray.direction, {}, 0, -1};
  const float half = grid.half_side * static_cast<float>(1 << (grid.n_levels - 1));
  float t_enter = ray.t_near, t_exit = ray.t_far;
  for (int axis = 0; axis < 3; ++axis) {
    const float d = ray.direction[axis];
    // Finite instead of 1 / 0, because 0 * infinity is NaN.
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

// Finds up to max_samples next intervals whose middle lies in an occupied cell, and writes their
// middles and lengths (scene units) and cells, the latter unless null; only counts if t_middles is
// null. Returns their number. Fewer than max_samples means that the ray is finished: it has left
// the grid, or t is so large that adding a step does not change it. Sources: Amanatides and Woo
// 1987 for the cell exits; Mueller et al. 2022, appendix E, for step lengths and nested grids.
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
    // Jump out of the empty cell, or of all empty blocks around it.
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

// MarchSamples for many rays at once. n_found < max_samples means that the ray is finished.
// Shapes: active [n_active], distinct indices into `rays`; n_found [n_active]; t_middles, deltas,
// cells [n_active, max_samples], of which the first n_found of a row are written.
// Requires: grid.empty_distances is not null, aligned to 4 bytes, its size padded to a multiple of
// 4; max_samples > 0.
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
// only rays with enough transmittance left continue. All pointers are to device memory, counts
// included: the host does not know them.
namespace cuda {

// Samples per ray in each wave. Rays keep about five samples, so larger first waves would march
// beyond the end of most rays. Few rays continue beyond the 60th, so the last wave takes the rest.
inline constexpr int kWaves = 5;
inline constexpr int kWaveSamples[kWaves] = {4, 8, 16, 32, 1988};
static_assert([] {
  int n = 0;
  for (const int samples : kWaveSamples) n += samples;
  return n == kMaxSamplesPerRay;
}());

// Rays whose kept samples are counted together, and the number of such groups.
inline constexpr uint32_t kRayBlock = 256;
inline constexpr uint32_t RayBlocks(uint32_t ray_capacity) { return ray_capacity / kRayBlock + 1; }

// State of a ray between two waves.
struct alignas(16) RayState {
  MarchRay march;
  float transmittance = 1;
  uint32_t n_kept = 0;   // visible samples so far
  uint32_t n_waves = 0;  // in which it marched
};

// A ray's samples of one wave: [first, first + n).
struct RaySegment {
  uint32_t first = 0, n = 0;
};

// Parts of MarchParams::counts behind those of the waves: samples infinitely far away, and those
// kept.
inline constexpr int kHorizonPart = kWaves, kKeptPart = kWaves + 1, kMarchParts = kWaves + 2;
inline constexpr uint32_t kNoSample = ~0u;

// Shapes: [ray_capacity] for rays and [sample_capacity] for samples unless stated otherwise. The
// samples of wave w are DeviceRange{sample_capacity, counts, w}. If more samples are found than
// fit, *overflow becomes 1, none is written beyond the capacity, no sample is kept, and the counts
// are lower bounds of the numbers needed.
struct MarchParams {
  MarchGrid grid;
  MarchSteps steps;
  const float* step_scale = nullptr;  // factor on steps; null: 1
  Vec3 box_min, inverse_box_size;     // what the unit cube covers
  float min_transmittance = 0, alpha_threshold = 0;
  // Rays.
  uint32_t ray_capacity = 0;
  const uint32_t* n_rays = nullptr;
  const Ray* rays = nullptr;
  const float* jitters = nullptr;
  RayState* states = nullptr;
  RaySegment* segments = nullptr;  // [kWaves][ray_capacity], of the waves in which a ray marched
  // Wave 0 marches all rays. These are the rays of each later wave, [2][ray_capacity] by its
  // parity, and their number, [kWaves], initially 0.
  uint32_t* alive = nullptr;
  uint32_t* alive_counts = nullptr;
  // Samples.
  uint32_t sample_capacity = 0;
  uint32_t* counts = nullptr;    // [kMarchParts], initially 0
  uint32_t* overflow = nullptr;  // initially 0
  float* t_middles = nullptr;
  float* deltas = nullptr;
  uint32_t* cells = nullptr;  // 64 * block + bit
  uint32_t* ray_of = nullptr;
  Vec3* positions = nullptr;  // unit cube
  float* alphas = nullptr;    // written between two waves; 1 for a sample that ends its ray
  float* weights = nullptr;   // -1 if a sample is not visible
  // Kept samples, sorted by ray.
  uint32_t* block_sums = nullptr;   // [RayBlocks(ray_capacity)]
  uint32_t* ray_offsets = nullptr;  // [ray_capacity + 1]
  uint32_t* rows = nullptr;         // index of each kept sample among the samples
  // Each ray's sample infinitely far away, which AddHorizons makes; null: it is not called.
  uint32_t* horizons = nullptr;  // index among the samples, kNoSample: none
  EncodedSpace space;            // of the encoding, for horizons
};

// Composites each ray's samples of the previous wave, then marches on; in wave 0 each ray starts
// where it enters the grid. In the last wave the march runs twice, to count and to write.
// Traffic: 112 bytes per ray in wave 0, 152 in later ones; 36 per sample.
void MarchWave(const MarchParams& params, int wave, Stream stream);
// After the last wave, where the field is also what lies behind the boxes: composites its samples
// and gives each ray that has light left an opaque sample infinitely far away, with delta and
// t_middle 0. They are DeviceRange{sample_capacity, counts, kHorizonPart}.
// Traffic: 64 bytes per ray, 40 per sample.
void AddHorizons(const MarchParams& params, Stream stream);
// After the last wave, or AddHorizons: composites its samples, unless AddHorizons has, and lists
// the kept samples of all waves.
void CompactSamples(const MarchParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
