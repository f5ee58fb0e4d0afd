#include "engine/field/kernels/occupancy_update.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "engine/field/occupancy_grid.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels {
namespace {

constexpr int kResolution = 32, kLevels = 3;
constexpr uint32_t kSide = kResolution / 4, kBlocks = kLevels * kSide * kSide * kSide;

TEST(ProbedCellsTest, EveryCellIsSelectedOncePerPeriod) {
  for (int period : {1, 8, 32, 64}) {
    for (uint64_t block : {0u, 1u, 77u}) {
      uint64_t seen = 0;
      for (int update = 100; update < 100 + period; ++update) {
        const uint64_t cells = ProbedCells(period, update, block);
        EXPECT_EQ(std::popcount(cells), 64 / period);
        EXPECT_EQ(seen & cells, 0u);
        seen |= cells;
      }
      EXPECT_EQ(seen, ~uint64_t{0});
    }
  }
}

TEST(ProbedCellsTest, TheMiddleHalfOfOuterLevelsIsCovered) {
  uint32_t n_covered = 0;
  for (uint32_t block = 0; block < kSide * kSide * kSide; ++block) {
    EXPECT_FALSE(IsCoveredBlock(0, block, kSide));
    n_covered += IsCoveredBlock(1, block, kSide);
  }
  EXPECT_EQ(n_covered, kSide * kSide * kSide / 8);
}

// The cells that may be occupied: not every fifth block, and a part of the next one.
std::vector<uint64_t> Allowed() {
  std::vector<uint64_t> cells(kBlocks, ~uint64_t{0});
  for (uint32_t block = 0; block + 1 < kBlocks; block += 5)
    cells[block] = 0, cells[block + 1] = 0xff00;
  return cells;
}

class CudaOccupancyUpdateTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaOccupancyUpdateTest);

TEST_P(CudaOccupancyUpdateTest, ProbesAPointInEachSelectedCellAndDecaysAll) {
  const std::vector<float> before = RandomFloats(64 * kBlocks, 0, 1, 1);
  const Vec3 half{1, 1, 1}, center{0.5f, 0, -0.5f}, outer = half * 4.0f;
  // Blocks of even number have an occupied cell.
  std::vector<uint64_t> bits(kBlocks);
  for (uint32_t block = 0; block < kBlocks; block += 2) bits[block] = uint64_t{1} << block % 64;
  const DeviceArray<uint64_t> blocks(bits), allowed(Allowed());
  for (const ProbePeriods& periods : {ProbePeriods{1, 1}, {8, 8}, {8, 32}, {64, 8}}) {
    DeviceArray<float> values(before);
    DeviceArray<uint32_t> count(1), cells(64 * kBlocks);
    DeviceArray<Vec3> positions(64 * kBlocks);
    constexpr uint32_t kFirst = 5, kEnd = kBlocks - 3;
    cuda::ProbeCells({.first_block = kFirst,
                      .end_block = kEnd,
                      .resolution = kResolution,
                      .center = center,
                      .half_size = half,
                      .box_min = center - outer,
                      .box_size = outer * 2.0f,
                      .seed = 3,
                      .step = 48,
                      .update = 12,
                      .periods = periods,
                      .blocks = blocks.data(),
                      .allowed = allowed.data(),
                      .decay = 0.5f,
                      .values = values.data(),
                      .capacity = 64 * kBlocks,
                      .count = count.data(),
                      .positions = positions.data(),
                      .cells = cells.data()},
                     stream_);
    const auto after = values.Download(stream_);
    for (uint32_t i = 0; i < 64 * kBlocks; ++i) {
      const bool inside = i / 64 >= kFirst && i / 64 < kEnd;
      ASSERT_EQ(after[i], inside ? 0.5f * before[i] : before[i]) << i;
    }
    std::set<uint32_t> expected, found;
    for (uint32_t block = kFirst; block < kEnd; ++block) {
      const uint32_t level = block / (kSide * kSide * kSide);
      if (IsCoveredBlock(static_cast<int>(level), block % (kSide * kSide * kSide), kSide)) continue;
      const uint64_t due =
          ProbedCells(block % 2 == 0 ? periods.occupied : periods.empty, 12, block) &
          Allowed()[block];
      for (uint32_t bit = 0; bit < 64; ++bit)
        if ((due >> bit) & 1) expected.insert(64 * block + bit);
    }
    const uint32_t n = count.Download(stream_)[0];
    const auto probed = cells.Download(stream_);
    const auto points = positions.Download(stream_);
    ASSERT_EQ(n, expected.size());
    found.insert(probed.begin(), probed.begin() + n);
    ASSERT_EQ(found, expected);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t block = probed[i] / 64, bit = probed[i] % 64;
      const uint32_t level = block / (kSide * kSide * kSide),
                     in_level = block % (kSide * kSide * kSide);
      const uint32_t corner[] = {in_level % kSide * 4 + bit % 4,
                                 in_level / kSide % kSide * 4 + bit / 4 % 4,
                                 in_level / kSide / kSide * 4 + bit / 16};
      for (int axis = 0; axis < 3; ++axis) {
        // From the unit cube to the level's cells.
        const double from_center = (points[i][axis] - 0.5) * 8;
        const double cell = (from_center / (1 << level) + 1) / 2 * kResolution;
        ASSERT_GT(cell, corner[axis] - 1e-3) << i << ", " << axis;
        ASSERT_LT(cell, corner[axis] + 1 + 1e-3) << i << ", " << axis;
      }
    }
  }
}

TEST_P(CudaOccupancyUpdateTest, AllCellsOfABlockGetItsMaximum) {
  const std::vector<float> host = RandomFloats(64 * kBlocks, 0, 1, 2);
  DeviceArray<float> values(host);
  cuda::SpreadBlockMaximum({.n_blocks = kBlocks - 1, .values = values.data()}, stream_);
  const auto after = values.Download(stream_);
  for (size_t i = 0; i < host.size(); ++i) {
    const auto block = host.begin() + i / 64 * 64;
    const float largest = *std::max_element(block, block + 64);
    ASSERT_EQ(after[i], i / 64 < kBlocks - 1 ? largest : host[i]) << i;
  }
}

TEST_P(CudaOccupancyUpdateTest, BitsAreSetAboveTheThresholdOrTheMeanWhereThatIsLower) {
  for (float threshold : {0.3f, 5.0f}) {
    const std::vector<float> host = RandomFloats(64 * kBlocks, 0, 1, 2);
    const DeviceArray<float> values(host);
    DeviceArray<double> sums(cuda::kMeanBlocks);
    const DeviceArray<uint64_t> allowed(Allowed());
    DeviceArray<uint64_t> blocks(kBlocks);
    DeviceArray<uint32_t> n_occupied(1);
    cuda::SetOccupiedBits({.n_blocks = kBlocks,
                           .values = values.data(),
                           .threshold = threshold,
                           .allowed = allowed.data(),
                           .sums = sums.data(),
                           .blocks = blocks.data(),
                           .n_occupied = n_occupied.data()},
                          stream_);
    double sum = 0;
    for (float value : host) sum += value;
    const float limit = std::min(static_cast<float>(sum / host.size()), threshold);
    const auto found = blocks.Download(stream_);
    uint32_t n = 0;
    for (size_t i = 0; i < host.size(); ++i) {
      const bool occupied = (found[i / 64] >> (i % 64)) & 1;
      // The mean may round to the neighboring float.
      if (std::abs(host[i] - limit) > 1e-6) {
        ASSERT_EQ(occupied, host[i] > limit && (Allowed()[i / 64] >> i % 64 & 1) != 0) << i;
      }
      n += occupied;
    }
    EXPECT_EQ(n_occupied.Download(stream_)[0], n);
  }
}

TEST_P(CudaOccupancyUpdateTest, EmptyDistancesAreTheHosts) {
  for (const int n_levels : {1, 2, 3}) {
    for (const uint32_t period : {7u, 211u, 1u << 20}) {  // the last one leaves the grid empty
      OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, n_levels, kResolution);
      for (size_t i = 0; i < grid.occupied_blocks.size(); ++i)
        grid.occupied_blocks[i] = (i + 1) % period == 0 ? 1 << 9 : 0;
      const DeviceArray<uint64_t> blocks(grid.occupied_blocks);
      DeviceArray<uint8_t> distances(grid.occupied_blocks.size()),
          along_axis(grid.occupied_blocks.size());
      cuda::EmptyDistances({.n_levels = n_levels,
                            .side = kSide,
                            .blocks = blocks.data(),
                            .distances = distances.data(),
                            .along_axis = along_axis.data()},
                           stream_);
      EXPECT_EQ(distances.Download(stream_), EmptyDistances(grid)) << n_levels << ", " << period;
    }
  }
}

}  // namespace
}  // namespace nerf::kernels
