#include "engine/field/occupancy_grid.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace nerf {
namespace {

constexpr Aabb kBox{{-1, -1, -1}, {1, 1, 1}};

OccupancyGrid EmptyGrid(int n_levels) {
  OccupancyGrid grid = FullOccupancyGrid(kBox, n_levels, 8);
  std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
  return grid;
}

TEST(OccupancyGridTest, FullGridIsOccupiedEverywhere) {
  const OccupancyGrid grid = FullOccupancyGrid(kBox, 2, 8);
  EXPECT_EQ(grid.occupied_blocks.size(), 2u * 8);
  EXPECT_EQ(grid.OccupiedFraction(), 1);
  EXPECT_TRUE(grid.Occupied(0, 0, 0, 0));
  EXPECT_TRUE(grid.Occupied(1, 7, 7, 7));
  EXPECT_EQ(grid.OccupiedBox(), kBox);
}

// Computed from the definition: the least chessboard distance to a block that is not empty space.
TEST(OccupancyGridTest, EmptyDistancesAreChessboardDistances) {
  for (const int n_levels : {1, 2, 3}) {
    constexpr int kSide = 8;
    OccupancyGrid grid = FullOccupancyGrid(kBox, n_levels, 4 * kSide);
    std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
    for (size_t i = 5; i < grid.occupied_blocks.size(); i += 211) grid.occupied_blocks[i] = 1 << 9;
    const std::vector<uint8_t> reaches = EmptyDistances(grid);
    ASSERT_EQ(reaches.size(), grid.occupied_blocks.size());
    const auto ends = [&](int level, int x, int y, int z) {
      const bool is_inside = std::min({x, y, z}) >= 0 && std::max({x, y, z}) < kSide;
      if (!is_inside) return level < n_levels - 1;
      // Covered by the finer level.
      const bool is_covered =
          level > 0 && std::min({x, y, z}) >= kSide / 4 && std::max({x, y, z}) < kSide - kSide / 4;
      return is_covered || grid.occupied_blocks[((level * kSide + z) * kSide + y) * kSide + x] != 0;
    };
    for (size_t i = 0; i < reaches.size(); ++i) {
      const int x = static_cast<int>(i % kSide), y = static_cast<int>(i / kSide % kSide),
                z = static_cast<int>(i / kSide / kSide % kSide),
                level = static_cast<int>(i / kSide / kSide / kSide);
      int nearest = 200;
      for (int dz = -kSide; dz <= kSide; ++dz) {
        for (int dy = -kSide; dy <= kSide; ++dy) {
          for (int dx = -kSide; dx <= kSide; ++dx) {
            if (!ends(level, x + dx, y + dy, z + dz)) continue;
            nearest = std::min(nearest, std::max({std::abs(dx), std::abs(dy), std::abs(dz)}));
          }
        }
      }
      EXPECT_EQ(reaches[i], nearest) << level << ": " << x << ", " << y << ", " << z;
    }
  }
}

TEST(OccupancyGridTest, EmptyGridHasTheLargestDistances) {
  const std::vector<uint8_t> reaches = EmptyDistances(EmptyGrid(1));
  EXPECT_GT(*std::min_element(reaches.begin(), reaches.end()), 64);
}

TEST(OccupancyGridTest, BitOfACellIsWhereTheLayoutSays) {
  OccupancyGrid grid = EmptyGrid(2);
  // Cell (5, 2, 7) of level 1: block (1, 0, 1) of 2x2x2, place (1, 2, 3) in it.
  grid.occupied_blocks[8 + 1 + 2 * (0 + 2 * 1)] = uint64_t{1} << (1 + 4 * 2 + 16 * 3);
  for (int level = 0; level < 2; ++level) {
    for (int z = 0; z < 8; ++z) {
      for (int y = 0; y < 8; ++y) {
        for (int x = 0; x < 8; ++x) {
          EXPECT_EQ(grid.Occupied(level, x, y, z), level == 1 && x == 5 && y == 2 && z == 7);
        }
      }
    }
  }
  EXPECT_DOUBLE_EQ(grid.OccupiedFraction(), 1.0 / 1024);
}

TEST(OccupancyGridTest, OccupiedBoxHugsTheCellsOfTheInnermostLevel) {
  OccupancyGrid grid = EmptyGrid(1);
  grid.occupied_blocks[0] = uint64_t{1} << (1 + 4 * 2 + 16 * 3);  // cell (1, 2, 3)
  grid.occupied_blocks[1] = uint64_t{1} << (2 + 4 * 3 + 16 * 3);  // cell (6, 3, 3)
  const Aabb box = grid.OccupiedBox();
  EXPECT_EQ(box.min, Vec3(-0.75f, -0.5f, -0.25f));
  EXPECT_EQ(box.max, Vec3(0.75f, 0, 0));
}

TEST(OccupancyGridTest, EmptyGridHasTheWholeBox) {
  const OccupancyGrid grid = EmptyGrid(1);
  EXPECT_EQ(grid.OccupiedFraction(), 0);
  EXPECT_EQ(grid.OccupiedBox(), kBox);
  EXPECT_EQ(OccupancyGrid{}.OccupiedFraction(), 0);
}

}  // namespace
}  // namespace nerf
