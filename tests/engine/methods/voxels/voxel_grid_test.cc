#include "engine/methods/voxels/voxel_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/methods/voxels/field.h"
#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf {
namespace {

// An 8^3 grid of which the brick at (1, 0, 0) is not stored, with random values.
VoxelGrid PartialGrid() {
  std::vector<bool> mask(8, true);
  mask[1] = false;
  VoxelGrid grid(8, mask);
  const std::vector<float> values = RandomFloats(grid.values().size(), -1, 1, 5);
  std::copy(values.begin(), values.end(), grid.values().begin());
  return grid;
}

// Component c at a point by the definition, in double.
double Reference(const VoxelGrid& grid, Vec3 unit, int c) {
  double sum = 0;
  const int n = grid.resolution();
  for (int z = 0; z < n; ++z) {
    for (int y = 0; y < n; ++y) {
      for (int x = 0; x < n; ++x) {
        double weight = 1;
        for (int axis = 0; axis < 3; ++axis) {
          const int at = axis == 0 ? x : axis == 1 ? y : z;
          const double place = std::clamp(unit[axis] * double(n) - 0.5, 0.0, n - 1.0);
          weight *= std::max(0.0, 1 - std::abs(place - at));
        }
        const ptrdiff_t offset = grid.OffsetOf(x, y, z);
        sum += weight * (offset >= 0 ? grid.values()[offset + c] : c == 0 ? kEmptyExponent : 0.0f);
      }
    }
  }
  return sum;
}

TEST(VoxelGridTest, InterpolatesAsTheReferenceAlsoAtTheRim) {
  const VoxelGrid grid = PartialGrid();
  EXPECT_EQ(grid.n_bricks(), 7u);
  float row[kVoxelStride];
  for (const Vec3& point : RandomPoints(50, 0, 1, 6)) {
    grid.Interpolate(point, row);
    for (const int c : {0, 1, 27})
      EXPECT_NEAR(row[c], Reference(grid, point, c), 1e-5) << point.x << " " << point.y;
    EXPECT_NEAR(grid.Exponent(point), row[0], 1e-5);
  }
}

TEST(VoxelGridTest, ColorIsThatOfHarmonicsOfDegreeTwo) {
  const std::vector<float> row = RandomFloats(kVoxelStride, -2, 2, 8);
  const Vec3 direction = RandomDirections(1, 9)[0];
  const auto expected = reference::SphericalHarmonics4(direction.x, direction.y, direction.z);
  float harmonics[kVoxelHarmonics];
  VoxelHarmonics(direction, harmonics);
  const Vec3 color = VoxelColor(row.data(), harmonics);
  for (int channel = 0; channel < 3; ++channel) {
    double sum = 0;
    for (int h = 0; h < kVoxelHarmonics; ++h) sum += row[1 + 9 * channel + h] * expected[h];
    EXPECT_NEAR(color[channel], 1 / (1 + std::exp(-sum)), 1e-5);
  }
}

TEST(VoxelGridTest, FinerVoxelsOfALinearFieldLieOnIt) {
  VoxelGrid grid(8, std::vector<bool>(8, true));
  const auto value = [](int x, int y, int z) { return 0.5f * x - 0.25f * y + 2.0f * z; };
  for (int z = 0; z < 8; ++z) {
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) grid.values()[grid.OffsetOf(x, y, z) + 3] = value(x, y, z);
    }
  }
  const VoxelGrid finer = Resampled(grid, 16, std::vector<bool>(64, true));
  for (const Vec3& point : RandomPoints(20, 0.15f, 0.85f, 7)) {
    float coarse_row[kVoxelStride], fine_row[kVoxelStride];
    grid.Interpolate(point, coarse_row);
    finer.Interpolate(point, fine_row);
    EXPECT_NEAR(fine_row[3], coarse_row[3], 1e-4);
  }
}

TEST(VoxelGridTest, BricksAreKeptAroundOccupiedCells) {
  OccupancyGrid occupancy = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32);
  std::fill(occupancy.occupied_blocks.begin(), occupancy.occupied_blocks.end(), 0);
  occupancy.occupied_blocks[0] = 1;  // the cell at the low corner, as large as a voxel
  const std::vector<bool> mask = OccupiedBricks(occupancy, 32);
  EXPECT_EQ(std::count(mask.begin(), mask.end(), true), 1);
  EXPECT_TRUE(mask[0]);
  occupancy.occupied_blocks[0] = uint64_t{1} << 63;  // cell (3, 3, 3): its neighbors are needed
  const std::vector<bool> more = OccupiedBricks(occupancy, 32);
  EXPECT_EQ(std::count(more.begin(), more.end(), true), 8);
}

TEST(VoxelGridTest, VariationGradientIsTheDerivativeOfTheSum) {
  VoxelGrid grid = PartialGrid();
  const VariationWeights weights{0.5f, 0.25f};
  const auto variation = [&] {
    double sum = 0;
    for (int z = 0; z < 8; ++z) {
      for (int y = 0; y < 8; ++y) {
        for (int x = 0; x < 8; ++x) {
          const ptrdiff_t here = grid.OffsetOf(x, y, z);
          for (int axis = 0; axis < 3 && here >= 0; ++axis) {
            const int next[3] = {x + (axis == 0), y + (axis == 1), z + (axis == 2)};
            if (next[axis] == 8) continue;
            const ptrdiff_t there = grid.OffsetOf(next[0], next[1], next[2]);
            for (int c = 0; c < kVoxelFloats && there >= 0; ++c) {
              const double difference = double{grid.values()[there + c]} - grid.values()[here + c];
              sum += (c == 0 ? weights.density : weights.color) * difference * difference;
            }
          }
        }
      }
    }
    return sum;
  };
  std::vector<float> gradients(grid.values().size());
  AddVariationGradient(grid, 0, grid.n_bricks(), weights, 2, gradients.data());
  for (const auto& [x, y, z, c] :
       {std::array{0, 0, 0, 0}, {3, 3, 3, 0}, {3, 1, 2, 5}, {7, 7, 7, 27}, {4, 4, 1, 1}}) {
    const ptrdiff_t at = grid.OffsetOf(x, y, z) + c;
    const double expected = 2 * CentralDifference(&grid.values()[at], 1e-2, variation);
    EXPECT_NEAR(gradients[at], expected, 1e-3 * (1 + std::abs(expected)));
  }
}

}  // namespace
}  // namespace nerf
