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

TEST(OccupancyGridTest, SuperblockOfACellIsSetAndNoOther) {
  OccupancyGrid grid = FullOccupancyGrid(kBox, 2, 64);
  std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
  // Cell (50, 17, 35) of level 1: block (12, 4, 8) of 16^3, superblock (3, 1, 2) of 4^3.
  grid.occupied_blocks[4096 + 12 + 16 * (4 + 16 * 8)] = uint64_t{1} << 63;
  EXPECT_EQ(OccupiedSuperblocks(grid),
            (std::vector<uint64_t>{0, uint64_t{1} << (3 + 4 * (1 + 4 * 2))}));
}

TEST(OccupancyGridTest, NestedGridsThatSuperblocksDoNotAlignWithHaveNone) {
  EXPECT_TRUE(OccupiedSuperblocks(FullOccupancyGrid(kBox, 2, 32)).empty());
  EXPECT_TRUE(OccupiedSuperblocks(FullOccupancyGrid(kBox, 1, 8)).empty());
  EXPECT_EQ(OccupiedSuperblocks(FullOccupancyGrid(kBox, 1, 32)), (std::vector<uint64_t>{0xff}));
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
