#include "engine/field/parameters/gradient_lanes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace nerf {
namespace {

constexpr size_t kSize = 2500;  // more than two blocks

// Numbers whose sum depends on the order of the additions.
std::vector<float> Lanes(int n_lanes) {
  std::vector<float> lanes(kSize * n_lanes);
  for (size_t i = 0; i < lanes.size(); ++i)
    lanes[i] = std::sin(static_cast<float>(i)) * std::pow(10.0f, static_cast<float>(i * 7 % 9));
  return lanes;
}

std::vector<float> Summed(int n_lanes) {
  std::vector<float> lanes = Lanes(n_lanes);
  SumLanes({0, n_lanes}, n_lanes, kSize, lanes.data());
  lanes.resize(kSize);
  return lanes;
}

TEST(GradientLanesTest, TheTreeAddsNeighborsFirst) {
  const std::vector<float> lanes = Lanes(6), sum = Summed(6);
  for (size_t i = 0; i < kSize; ++i) {
    const auto lane = [&](int l) { return lanes[kSize * l + i]; };
    ASSERT_EQ(sum[i], ((lane(0) + lane(1)) + (lane(2) + lane(3))) + (lane(4) + lane(5)));
  }
}

TEST(GradientLanesTest, RangesOfAnyRanksGiveTheSameBits) {
  for (const int n_lanes : {1, 2, 31, 32}) {
    const std::vector<float> expected = Summed(n_lanes);
    for (int n_ranks = 1; n_ranks <= 9; ++n_ranks) {
      std::vector<IndexRange> ranges;
      std::vector<float> gathered(kSize * n_lanes, NAN);
      for (int rank = 0; rank < n_ranks; ++rank) {
        const IndexRange range = PartOf(n_lanes, rank, n_ranks);
        std::vector<float> own = Lanes(n_lanes);  // of which only the range is read
        for (int lane = 0; lane < n_lanes; ++lane) {
          if (lane < range.begin || lane >= range.end)
            std::fill_n(own.begin() + static_cast<int64_t>(kSize) * lane, kSize, NAN);
        }
        SumLanes(range, n_lanes, kSize, own.data());
        for (const int lane : LanesWithSums(range, n_lanes))
          std::copy_n(own.begin() + static_cast<int64_t>(kSize) * lane, kSize,
                      gathered.begin() + static_cast<int64_t>(kSize) * lane);
        ranges.push_back(range);
      }
      SumRanges(ranges, n_lanes, kSize, gathered.data());
      gathered.resize(kSize);
      EXPECT_EQ(gathered, expected) << n_lanes << " lanes, " << n_ranks << " ranks";
    }
  }
}

TEST(GradientLanesTest, ARangeThatIsASubtreeHasOneSum) {
  EXPECT_EQ(LanesWithSums({16, 32}, 32), std::vector<int>{16});
  EXPECT_EQ(LanesWithSums({11, 22}, 32), (std::vector<int>{11, 12, 16, 20}));
  EXPECT_EQ(LanesWithSums({5, 5}, 32), std::vector<int>{});
}

TEST(GradientLanesTest, PartsCoverEachItemOnce) {
  for (const int n : {0, 1, 31, 40}) {
    for (const int n_parts : {1, 3, 32}) {
      int next = 0;
      for (int part = 0; part < n_parts; ++part) {
        const IndexRange range = PartOf(n, part, n_parts);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, n / n_parts + 1);
        next = range.end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

}  // namespace
}  // namespace nerf
