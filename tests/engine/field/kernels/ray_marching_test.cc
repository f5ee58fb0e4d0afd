#include "engine/field/kernels/ray_marching.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/philox.h"
#include "engine/field/occupancy_grid.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/ray_marching.h"
#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

// In steps. Middles may differ from the exact lattice by rounding, and by cone / 8 of a step where
// steps start to grow. A sample closer than this to a cell's face may be in either cell.
constexpr double kDrift = 0.05;

struct Samples {
  std::vector<float> t_middles, deltas;
  std::vector<uint32_t> cells;
  bool operator==(const Samples&) const = default;
};

class RayMarchingTest : public SimdPathTest {};
NERF_INSTANTIATE_SIMD_PATHS(RayMarchingTest);

// Marches to the end, `wave` samples at a time, by the scalar function.
Samples March(const OccupancyGrid& grid, const MarchSteps& steps, const Ray& ray, float jitter,
              int wave) {
  Samples samples;
  const std::vector<uint8_t> empty_distances = EmptyDistances(grid);
  const MarchGrid view = MarchGridOf(grid, empty_distances);
  MarchRay march = StartMarch(view, steps, ray, jitter);
  std::vector<float> t_middles(wave), deltas(wave);
  std::vector<uint32_t> cells(wave);
  int n = wave;
  for (int rounds = 0; n == wave && rounds < 100000; ++rounds) {
    n = MarchSamples(view, steps, wave, &march, t_middles.data(), deltas.data(), cells.data());
    samples.t_middles.insert(samples.t_middles.end(), t_middles.begin(), t_middles.begin() + n);
    samples.deltas.insert(samples.deltas.end(), deltas.begin(), deltas.begin() + n);
    samples.cells.insert(samples.cells.end(), cells.begin(), cells.begin() + n);
  }
  return samples;
}

// The same for all rays at once, by the vector code.
std::vector<Samples> MarchAll(const OccupancyGrid& grid, const MarchSteps& steps,
                              const std::vector<Ray>& rays, float jitter, int wave) {
  const std::vector<uint8_t> empty_distances = EmptyDistances(grid);
  const MarchGrid view = MarchGridOf(grid, empty_distances);
  std::vector<MarchRay> marches;
  std::vector<int> active;
  for (const Ray& ray : rays) {
    active.push_back(static_cast<int>(marches.size()));
    marches.push_back(StartMarch(view, steps, ray, jitter));
  }
  std::vector<Samples> samples(rays.size());
  for (int rounds = 0; !active.empty() && rounds < 100000; ++rounds) {
    const size_t most = active.size() * wave;
    std::vector<float> t_middles(most), deltas(most);
    std::vector<uint32_t> cells(most);
    std::vector<int> n_found(active.size(), -1), still_active;
    cpu::MarchRays({.grid = view,
                    .steps = steps,
                    .max_samples = wave,
                    .n_active = static_cast<int>(active.size()),
                    .active = active.data(),
                    .rays = marches.data(),
                    .n_found = n_found.data(),
                    .t_middles = t_middles.data(),
                    .deltas = deltas.data(),
                    .cells = cells.data()});
    for (size_t i = 0; i < active.size(); ++i) {
      Samples& own = samples[active[i]];
      const size_t begin = i * wave, end = begin + n_found[i];
      own.t_middles.insert(own.t_middles.end(), &t_middles[begin], t_middles.data() + end);
      own.deltas.insert(own.deltas.end(), &deltas[begin], deltas.data() + end);
      own.cells.insert(own.cells.end(), &cells[begin], cells.data() + end);
      if (n_found[i] == wave) still_active.push_back(active[i]);
    }
    active = still_active;
  }
  return samples;
}

OccupancyGrid RandomGrid(int n_levels, int resolution, double occupied, uint32_t stream) {
  OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, n_levels, resolution);
  for (size_t i = 0; i < grid.occupied_blocks.size(); ++i) {
    uint64_t bits = 0;
    const std::vector<float> draws =
        RandomFloats(64, 0, 1, stream * 100000 + static_cast<uint32_t>(i));
    for (int bit = 0; bit < 64; ++bit) bits |= uint64_t{draws[bit] < occupied} << bit;
    grid.occupied_blocks[i] = bits;
  }
  return grid;
}

// Checks that all samples of the lattice that are not close to a face are found, and no others.
// Returns how many were compared.
int ExpectMatchesLattice(const Samples& samples, const OccupancyGrid& grid, const MarchSteps& steps,
                         const Ray& ray, float jitter) {
  const std::vector<reference::LatticeInterval> lattice =
      reference::MarchLattice(grid, steps.step, steps.cone, ray, jitter);
  size_t next = 0;
  int n_compared = 0;
  for (const reference::LatticeInterval& interval : lattice) {
    const bool found =
        next < samples.t_middles.size() &&
        std::abs(samples.t_middles[next] - interval.t_middle) < kDrift * interval.delta;
    if (interval.margin > kDrift) {
      EXPECT_EQ(found, interval.occupied) << "t " << interval.t_middle << ", delta "
                                          << interval.delta << ", margin " << interval.margin;
      ++n_compared;
    }
    if (found) {
      EXPECT_NEAR(samples.deltas[next], interval.delta, kDrift * interval.delta);
      ++next;
    }
  }
  EXPECT_EQ(next, samples.t_middles.size()) << "samples that are not on the lattice";
  return n_compared;
}

// The same for the scalar and the vector code.
int ExpectAllMatchLattice(const OccupancyGrid& grid, const MarchSteps& steps,
                          const std::vector<Ray>& rays) {
  constexpr float kJitter = 0.37f;
  const std::vector<Samples> all = MarchAll(grid, steps, rays, kJitter, 16);
  int n_compared = 0;
  for (size_t i = 0; i < rays.size(); ++i) {
    n_compared += ExpectMatchesLattice(all[i], grid, steps, rays[i], kJitter);
    const Samples scalar = March(grid, steps, rays[i], kJitter, 16);
    n_compared += ExpectMatchesLattice(scalar, grid, steps, rays[i], kJitter);
  }
  return n_compared;
}

// Rays from around and inside the grid, none of them close to a plane of the axes.
std::vector<Ray> Rays(int n, float reach) {
  const std::vector<Vec3> origins = RandomPoints(n, -reach, reach, 11);
  const std::vector<Vec3> targets = RandomPoints(n, -0.9f, 0.9f, 12);
  std::vector<Ray> rays;
  for (int i = 0; i < n; ++i) {
    rays.push_back({origins[i], Normalized(targets[i] - origins[i])});
    rays.back().t_near = 0.05f;
  }
  return rays;
}

TEST_P(RayMarchingTest, FindsExactlyTheOccupiedPartOfTheLattice) {
  const MarchSteps steps{.step = 0.04f};
  for (double occupied : {0.0, 0.002, 0.02, 0.3, 1.0}) {
    const OccupancyGrid grid = RandomGrid(1, 32, occupied, 1);
    EXPECT_GT(ExpectAllMatchLattice(grid, steps, Rays(100, 3)), 2000) << occupied;
  }
}

TEST_P(RayMarchingTest, FindsTheLatticeWithGrowingStepsInNestedGrids) {
  // Steps grow from t = 1.28 on; the outermost box distances to 4.
  const MarchSteps steps{.step = 0.02f, .cone = 1.0f / 64};
  for (double occupied : {0.0, 0.002, 0.02, 0.3, 1.0}) {
    const OccupancyGrid grid = RandomGrid(3, 32, occupied, 2);
    EXPECT_GT(ExpectAllMatchLattice(grid, steps, Rays(100, 5)), 2000) << occupied;
  }
}

TEST_P(RayMarchingTest, LeapsOverEmptyBlocksMissNothing) {
  // A few occupied cells in 64^3: most blocks are far from any, but rays also cross the others.
  for (int n_levels : {1, 3}) {
    const OccupancyGrid grid = RandomGrid(n_levels, 64, 1e-4, 5);
    const std::vector<uint8_t> distances = EmptyDistances(grid);
    ASSERT_GT(*std::max_element(distances.begin(), distances.end()), 2);
    const MarchSteps steps{.step = 0.01f, .cone = n_levels > 1 ? 1.0f / 128 : 0};
    EXPECT_GT(ExpectAllMatchLattice(grid, steps, Rays(200, 4)), 2000) << n_levels;
  }
}

TEST_P(RayMarchingTest, WavesOfAnySizeGiveTheSameBytes) {
  const MarchSteps steps{.step = 0.02f, .cone = 1.0f / 256};
  const OccupancyGrid grid = RandomGrid(2, 32, 0.1, 3);
  size_t n = 0;
  const std::vector<Ray> rays = Rays(50, 3);
  const std::vector<Samples> all = MarchAll(grid, steps, rays, 0.5f, 4096);
  for (int wave : {1, 7, 16}) EXPECT_EQ(MarchAll(grid, steps, rays, 0.5f, wave), all);
  for (const Ray& ray : rays) {
    const Samples whole = March(grid, steps, ray, 0.5f, 4096);
    for (int wave : {1, 7, 16}) {
      const Samples waves = March(grid, steps, ray, 0.5f, wave);
      EXPECT_EQ(waves.t_middles, whole.t_middles);
      EXPECT_EQ(waves.deltas, whole.deltas);
      EXPECT_EQ(waves.cells, whole.cells);
    }
    n += whole.t_middles.size();
  }
  EXPECT_GT(n, 100u);
}

// A ray's bytes do not depend on the other rays in its vectors.
TEST_P(RayMarchingTest, RayGivesTheSameBytesWithAnyOtherRays) {
  for (const MarchSteps& steps : {MarchSteps{0.02f, 0}, MarchSteps{0.02f, 1.0f / 256}}) {
    const OccupancyGrid grid = RandomGrid(2, 32, 0.05, 6);
    const std::vector<Ray> rays = Rays(67, 3);
    const std::vector<Samples> all = MarchAll(grid, steps, rays, 0.5f, 8);
    for (const size_t n : {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33}) {
      const std::vector<Ray> few(rays.end() - static_cast<ptrdiff_t>(n), rays.end());
      EXPECT_EQ(MarchAll(grid, steps, few, 0.5f, 8),
                std::vector<Samples>(all.end() - static_cast<ptrdiff_t>(n), all.end()))
          << n;
    }
  }
}

TEST_P(RayMarchingTest, ReportsTheOccupiedCellOfEachSample) {
  const MarchSteps steps{.step = 0.03f};
  const OccupancyGrid grid = RandomGrid(2, 32, 0.2, 4);
  std::vector<Samples> samples = MarchAll(grid, steps, Rays(20, 3), 0.5f, 64);
  for (const Ray& ray : Rays(20, 3)) samples.push_back(March(grid, steps, ray, 0.5f, 64));
  for (const Samples& own : samples) {
    for (uint32_t cell : own.cells) {
      ASSERT_LT(cell / 64, grid.occupied_blocks.size());
      EXPECT_TRUE((grid.occupied_blocks[cell / 64] >> (cell % 64)) & 1);
    }
  }
}

TEST_P(RayMarchingTest, NearAndFarPlanesLeaveSixSamples) {
  // nerfacc's example: a full unit cell, planes at 1.2 and 1.5, steps of 0.05.
  const OccupancyGrid grid = FullOccupancyGrid({{0, 0, 0}, {1, 1, 1}}, 1, 4);
  Ray ray{{-1, 0, 0}, Normalized({1, 0.01f, 0.01f})};
  ray.t_near = 1.2f;
  ray.t_far = 1.5f;
  const Samples samples = March(grid, {.step = 0.05f}, ray, 0, 100);
  ASSERT_EQ(samples.t_middles.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(samples.t_middles[i], 1.225 + 0.05 * i, 1e-5);
    EXPECT_FLOAT_EQ(samples.deltas[i], 0.05f);
  }
}

TEST_P(RayMarchingTest, StepsAndTheirInverseAgree) {
  for (const MarchSteps& steps : {MarchSteps{0.01f, 0}, MarchSteps{0.01f, 1.0f / 256}}) {
    for (float t : {0.0f, 0.5f, 2.5f, 2.6f, 40.0f}) {
      EXPECT_NEAR(steps.FromSteps(steps.ToSteps(t)), t, 1e-5f * t + 1e-6f) << steps.cone;
      // One step is one unit of stepping space, to the cone / 2 by which it differs at the turn.
      EXPECT_NEAR(steps.ToSteps(t + steps.Delta(t)) - steps.ToSteps(t), 1, 3e-3) << t;
    }
  }
}

TEST_P(RayMarchingTest, RaysPastTheGridFindNothing) {
  const OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32);
  const Ray rays[] = {
      {{-3, 2, 0}, {1, 0, 0}},                     // beside it
      {{3, 0, 0}, {1, 0, 0}},                      // behind
      {{0, 0, 0}, {1, 0, 0}, /*t_near=*/5},        // near plane beyond it
      {{-3, 0, 0}, {1, 0, 0}, 0, /*t_far=*/1.5f},  // far plane in front of it
  };
  for (const Ray& ray : rays) {
    EXPECT_TRUE(March(grid, {.step = 0.1f}, ray, 0, 16).deltas.empty());
    EXPECT_TRUE(MarchAll(grid, {.step = 0.1f}, {ray}, 0, 16)[0].deltas.empty());
  }
}

TEST_P(RayMarchingTest, AxisParallelRaysCrossTheWholeGrid) {
  const OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32);
  for (int axis = 0; axis < 3; ++axis) {
    for (float sign : {-1.0f, 1.0f}) {
      Ray ray{{0.3f, 0.3f, 0.3f}, {}};
      ray.origin[axis] = -3 * sign;
      ray.direction[axis] = sign;
      EXPECT_EQ(March(grid, {.step = 0.1f}, ray, 0, 16).deltas.size(), 20u) << axis;
      EXPECT_EQ(MarchAll(grid, {.step = 0.1f}, {ray}, 0, 16)[0].deltas.size(), 20u) << axis;
    }
  }
}

TEST_P(RayMarchingTest, AxisParallelRaysThroughAnEmptyGridEnd) {
  OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 2, 32);
  std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
  for (int axis = 0; axis < 3; ++axis) {
    // On a face between cells, where distances to faces are exactly 0.
    Ray ray{{0, 0, 0}, {}};
    ray.origin[axis] = -3;
    ray.direction[axis] = 1;
    EXPECT_TRUE(March(grid, {.step = 0.01f}, ray, 0, 16).deltas.empty());
    EXPECT_TRUE(MarchAll(grid, {.step = 0.01f}, {ray}, 0, 16)[0].deltas.empty());
  }
}

// Where a step is below the spacing of floats, adding it does not change t.
TEST_P(RayMarchingTest, RayEndsWhereAStepNoLongerMovesIt) {
  struct Case {
    float distance, step, cone;
  };
  for (const Case& c : {Case{1e5f, 0.003f, 0}, Case{1e6f, 0.003f, 0}, Case{4, 1e-7f, 0},
                        Case{4, 1e-12f, 0}, Case{1e6f, 0.003f, 1e-9f}}) {
    for (const double occupied : {0.0, 0.5, 1.0}) {
      const OccupancyGrid grid = RandomGrid(1, 32, occupied, 7);
      std::vector<Ray> rays;
      for (int i = 0; i < 50; ++i) {
        const Vec3 d = Normalized(Vec3{0.3f + 0.001f * i, 0.5f, -0.8f});
        rays.push_back({d * -c.distance + Vec3{0.04f * i - 1, 0, 0}, d, 0.05f});
      }
      const std::vector<uint8_t> distances = EmptyDistances(grid);
      const MarchSteps steps{c.step, c.cone};
      std::vector<MarchRay> marches;
      std::vector<int> active, n_found(rays.size());
      for (const Ray& ray : rays) {
        MarchRay march = StartMarch(MarchGridOf(grid, distances), steps, ray, 0.3f);
        active.push_back(static_cast<int>(marches.size()));
        marches.push_back(march);
        float t_middles[8], deltas[8];
        // It must return.
        MarchSamples(MarchGridOf(grid, distances), steps, 8, &march, t_middles, deltas);
      }
      std::vector<float> t_middles(8 * rays.size()), deltas(8 * rays.size());
      std::vector<uint32_t> cells(8 * rays.size());
      cpu::MarchRays({MarchGridOf(grid, distances), steps, 8, static_cast<int>(rays.size()),
                      active.data(), marches.data(), n_found.data(), t_middles.data(),
                      deltas.data(), cells.data()});
    }
  }
}

}  // namespace
}  // namespace nerf::kernels
