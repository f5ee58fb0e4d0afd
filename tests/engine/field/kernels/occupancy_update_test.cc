#include "engine/field/kernels/occupancy_update.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/testing/random_floats.h"
#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

class OccupancyUpdateTest : public SimdPathTest {};
NERF_INSTANTIATE_SIMD_PATHS(OccupancyUpdateTest);

TEST_P(OccupancyUpdateTest, SumsOfCellsHaveTheSameBytesOnEveryPath) {
  for (const int64_t n_blocks : {0, 1, 3, 64}) {
    // Of magnitudes so far apart that another order would round otherwise.
    std::vector<float> values = RandomFloats(kBlockCells * n_blocks, 0, 1, 1);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::ldexp(values[i], static_cast<int>(i * 7 % 61) - 30);
    double sums[8] = {}, expected = 0;
    for (size_t i = 0; i < values.size(); ++i) sums[i % 8] += values[i];
    for (double sum : sums) expected += sum;
    EXPECT_EQ(cpu::SumOfCells(n_blocks, values.data()), expected) << n_blocks;
  }
}

TEST_P(OccupancyUpdateTest, BitsAreSetWhereAnAllowedValueIsAboveTheThreshold) {
  constexpr int kBlocks = 5;
  std::vector<float> values = RandomFloats(kBlockCells * kBlocks, 0, 1, 1);
  values[1] = values[70] = 0.25f;  // the threshold itself
  values[2] = std::numeric_limits<float>::quiet_NaN();
  values[3] = std::numeric_limits<float>::infinity();
  uint64_t blocks[kBlocks + 1], allowed[kBlocks] = {~0u, 0, ~uint64_t{0}, 77, ~uint64_t{9}};
  for (uint64_t& block : blocks) block = 77;
  cpu::SetOccupiedBits({.n_blocks = kBlocks,
                        .values = values.data(),
                        .threshold = 0.25f,
                        .allowed = allowed,
                        .blocks = blocks});
  for (int i = 0; i < kBlockCells * kBlocks; ++i) {
    const bool may_be = (allowed[i / 64] >> i % 64 & 1) != 0;
    ASSERT_EQ(blocks[i / 64] >> i % 64 & 1, may_be && values[i] > 0.25f ? 1u : 0u) << i;
  }
  EXPECT_EQ(blocks[kBlocks], 77u);
}

}  // namespace
}  // namespace nerf::kernels
