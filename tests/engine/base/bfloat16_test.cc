#include "engine/base/bfloat16.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace nerf {
namespace {

TEST(Bfloat16Test, RoundsToTheNearestTiesToEven) {
  const float step = 0x1p-7f;  // between neighbors from 1 to 2
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    float value, rounded;
  } cases[] = {{0, 0},
               {1, 1},
               {1 + 0.5f * step, 1},
               {1 + 1.5f * step, 1 + 2 * step},
               {1 + 0.51f * step, 1 + step},
               {-1 - 0.49f * step, -1},
               {2 - 0.25f * step, 2},
               {0x1p-120f, 0x1p-120f},
               {3e38f, 0x1.c4p127f},
               {3.4e38f, infinity},
               {-infinity, -infinity}};
  for (const auto& [value, rounded] : cases) {
    EXPECT_EQ(Bf16Low(Bf16Pair(value, 7)), rounded) << value;
    EXPECT_EQ(Bf16High(Bf16Pair(7, value)), rounded) << value;
    EXPECT_EQ(Bf16High(Bf16Pair(value, 7)), 7) << value;
    EXPECT_EQ(Bf16Low(Bf16Pair(7, value)), 7) << value;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Bf16Low(Bf16Pair(nan, 7))));
  EXPECT_TRUE(std::isnan(Bf16High(Bf16Pair(7, -nan))));
}

}  // namespace
}  // namespace nerf
