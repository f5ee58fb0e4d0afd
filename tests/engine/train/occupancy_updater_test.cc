#include "engine/train/occupancy_updater.h"

#include <algorithm>
#include <cmath>

#include "engine/methods/ngp/state.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

// A field whose density exponent is `outside` where x < 0 and `inside` where x > 1/16 of the box,
// in between in between: the coarsest level of the hash table holds 0 or 1 by x, one chain of
// weights carries it to the density output.
class HalfSpaceField {
 public:
  HalfSpaceField(float outside, float inside, int n_levels = 1)
      : table_(size_t{32} << kLog2Size), weights_(kNgpWeights) {
    shape_ = NgpHashGridShape({.log2_hashmap_size = kLog2Size, .n_doublings = n_levels - 1});
    EXPECT_TRUE(shape_.IsDense(0));
    box_ = TinyGeometry(n_levels).box.Scaled(static_cast<float>(1 << (n_levels - 1)));
    const uint32_t corners = shape_.resolution[0] + 1;
    for (uint32_t entry = 0; entry < corners * corners * corners; ++entry) {
      const bool is_inside = entry % corners > corners / 2;
      table_[shape_.n_features * entry] = is_inside;
      table_[shape_.n_features * entry + 1] = 1;
    }
    const NgpLayer &first = kNgpLayers[kDensityHidden], &second = kNgpLayers[kDensityOutput];
    weights_[first.offset + 0 * first.n_out + 0] = 1;  // hidden 0 is feature 0
    weights_[first.offset + 1 * first.n_out + 1] = 1;  // hidden 1 is 1
    weights_[second.offset + 0 * second.n_out] = inside - outside;
    weights_[second.offset + 1 * second.n_out] = outside;
  }
  NgpNetwork Network() const { return {shape_, box_, table_.data(), weights_.data(), 1}; }

 private:
  static constexpr int kLog2Size = 13;
  kernels::HashGridShape shape_;
  Aabb box_;
  Buffer<float> table_, weights_;
};

constexpr float kNothing = -60, kSomething = 1;  // sigma 0 and 1

class OccupancyUpdaterTest : public testing::Test {
 protected:
  // Runs the updates number `first` to `last`.
  void Update(OccupancyUpdater* updater, const HalfSpaceField& field, int first, int last) {
    for (int i = first; i <= last; ++i)
      updater->Update(ProbedDensity(field.Network()), i * config_.grid_update_interval, &pool_);
  }
  TrainConfig config_ = TinyConfig();
  ThreadPool pool_{2};
};

TEST_F(OccupancyUpdaterTest, IsDueAtTheIntervalButNotAtTheStart) {
  const OccupancyUpdater updater(config_, TinyGeometry());
  EXPECT_FALSE(updater.IsDue(0));
  EXPECT_FALSE(updater.IsDue(3));
  EXPECT_TRUE(updater.IsDue(4));
  EXPECT_FALSE(updater.IsDue(5));
  EXPECT_TRUE(updater.IsDue(400));
}

TEST_F(OccupancyUpdaterTest, StartsWithEveryCellOccupied) {
  EXPECT_EQ(OccupancyUpdater(config_, TinyGeometry()).grid().OccupiedFraction(), 1);
}

TEST_F(OccupancyUpdaterTest, OneUpdateMarksTheHalfThatHoldsSomething) {
  OccupancyUpdater updater(config_, TinyGeometry());
  Update(&updater, HalfSpaceField(kNothing, kSomething), 1, 1);
  for (int x = 0; x < 32; ++x) {
    if (x == 16 || x == 17) continue;  // the ramp between the halves
    for (int y = 0; y < 32; y += 5) {
      for (int z = 0; z < 32; ++z) EXPECT_EQ(updater.grid().Occupied(0, x, y, z), x > 17);
    }
  }
}

TEST_F(OccupancyUpdaterTest, FirstUpdateLetsTheLargestOfABlockSpeakForItAndLaterOnesDoNot) {
  OccupancyUpdater updater(config_, TinyGeometry());
  // Observed by training: in one cell of a block that is empty otherwise.
  updater.Observe(std::vector<uint32_t>{64 * 3 + 5}, std::vector<float>{1});
  Update(&updater, HalfSpaceField(kNothing, kNothing), 1, 1);
  const float value = TinyGeometry().step * config_.grid_decay;
  for (uint32_t cell = 0; cell < 64 * 8; ++cell)
    ASSERT_NEAR(updater.values()[cell], cell / 64 == 3 ? value : 0, 1e-6f) << cell;
  updater.Observe(std::vector<uint32_t>{64 * 5 + 5}, std::vector<float>{1});
  Update(&updater, HalfSpaceField(kNothing, kNothing), 2, 2);
  EXPECT_NEAR(updater.values()[64 * 5 + 5], value, 1e-6f);
  EXPECT_NEAR(updater.values()[64 * 5 + 6], 0, 1e-6f);
}

TEST_F(OccupancyUpdaterTest, ValuesAreDensityTimesStep) {
  OccupancyUpdater updater(config_, TinyGeometry());
  Update(&updater, HalfSpaceField(kSomething, kSomething), 1, 1);
  for (float value : updater.values().span())
    ASSERT_NEAR(value, TinyGeometry().step, 1e-6f * TinyGeometry().step);
}

TEST_F(OccupancyUpdaterTest, CellsThatEmptiedDecayUntilTheyAreFree) {
  // The other half stays dense, so that the mean stays above the threshold.
  constexpr float kDense = 4;
  config_.grid_threshold = 0.3f * TinyGeometry().step;  // reached when decay^n < 0.3
  config_.grid_decay = 0.8f;
  OccupancyUpdater updater(config_, TinyGeometry());
  Update(&updater, HalfSpaceField(kDense, kSomething), 1, 1);
  const HalfSpaceField emptied(kDense, kNothing);
  Update(&updater, emptied, 2, 6);  // 0.8^5 = 0.33
  EXPECT_EQ(updater.grid().OccupiedFraction(), 1);
  Update(&updater, emptied, 7, 7);
  EXPECT_FALSE(updater.grid().Occupied(0, 20, 16, 16));
  EXPECT_TRUE(updater.grid().Occupied(0, 10, 16, 16));
  // Half, and the blocks at the border, whose dense cells spoke for all of them.
  EXPECT_NEAR(updater.grid().OccupiedFraction(), 20 / 32.0, 0.01);
}

TEST_F(OccupancyUpdaterTest, EveryCellIsProbedAgainWithinAPeriod) {
  // The first update speaks for everything; what appears afterwards must be found as well.
  OccupancyUpdater updater(config_, TinyGeometry());
  Update(&updater, HalfSpaceField(kNothing, kNothing), 1, 3);
  for (float value : updater.values().span()) ASSERT_LT(value, 1e-20f);
  Update(&updater, HalfSpaceField(kSomething, kSomething), 4, 4 + 31);
  const float oldest = TinyGeometry().step * std::pow(config_.grid_decay, 31.0f);
  for (float value : updater.values().span()) ASSERT_GE(value, 0.99f * oldest);
}

TEST_F(OccupancyUpdaterTest, EmptyBlocksAreProbedHalfAsOftenOnceTheFieldHasItsShape) {
  OccupancyUpdater updater(config_, TinyGeometry());
  const HalfSpaceField half_full(kNothing, kSomething), full(kSomething, kSomething);
  const int first = 256 / config_.grid_update_interval;
  Update(&updater, half_full, 1, first - 1);
  const auto probed = [&](int x) {
    int n = 0;
    for (int y = 0; y < 32; ++y) {
      for (int z = 0; z < 32; ++z) {
        const size_t block = x / 4 + 8 * (y / 4 + 8 * (z / 4));
        const size_t cell = 64 * block + x % 4 + 4 * (y % 4) + 16 * (z % 4);
        n += updater.values()[cell] > 0.9f * TinyGeometry().step;
      }
    }
    return n;
  };
  // Of a plane of 1024 cells, by an update that finds the whole box full.
  Update(&updater, full, first, first);
  EXPECT_EQ(probed(0) + probed(1) + probed(2) + probed(3), 4 * 1024 / 64);
  EXPECT_GE(probed(28) + probed(29) + probed(30) + probed(31), 4 * 1024 / 32);
  // Nothing is passed over for ever.
  Update(&updater, full, first + 1, first + 63);
  for (float value : updater.values().span()) ASSERT_GT(value, 0);
}

TEST_F(OccupancyUpdaterTest, OuterLevelsLeaveTheMiddleToTheLevelBelow) {
  OccupancyUpdater updater(config_, TinyGeometry(2));
  Update(&updater, HalfSpaceField(kSomething, kSomething, 2), 1, 1);
  for (int z = 0; z < 32; ++z) {
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        const auto middle = [](int c) { return c >= 8 && c < 24; };
        ASSERT_TRUE(updater.grid().Occupied(0, x, y, z));
        ASSERT_EQ(updater.grid().Occupied(1, x, y, z), !(middle(x) && middle(y) && middle(z)));
      }
    }
  }
}

TEST_F(OccupancyUpdaterTest, ObservedDensitiesRaiseCellsInAnyOrderAndLowerNone) {
  OccupancyUpdater updater(config_, TinyGeometry()), reversed(config_, TinyGeometry());
  const std::vector<uint32_t> cells = {7, 9, 7, 100, 9};
  const std::vector<float> sigmas = {1, 5, 3, 2, 4};
  updater.Observe(cells, sigmas);
  reversed.Observe(std::vector<uint32_t>(cells.rbegin(), cells.rend()),
                   std::vector<float>(sigmas.rbegin(), sigmas.rend()));
  const float step = TinyGeometry().step;
  EXPECT_FLOAT_EQ(updater.values()[7], 3 * step);
  EXPECT_FLOAT_EQ(updater.values()[9], 5 * step);
  EXPECT_FLOAT_EQ(updater.values()[100], 2 * step);
  EXPECT_TRUE(
      std::equal(updater.values().begin(), updater.values().end(), reversed.values().begin()));
}

TEST_F(OccupancyUpdaterTest, ReopenOccupiesEverything) {
  OccupancyUpdater updater(config_, TinyGeometry());
  Update(&updater, HalfSpaceField(kNothing, kNothing), 1, 1);
  updater.Reopen();
  EXPECT_EQ(updater.grid().OccupiedFraction(), 1);
}

TEST_F(OccupancyUpdaterTest, CellsThatAreKnownToBeEmptyAreNeitherProbedNorOccupied) {
  OccupancyUpdater updater(config_, TinyGeometry());
  const std::vector<uint64_t> empty = SomeEmptyCells(updater.grid());
  updater.KeepEmpty(empty);
  const auto expect_none_occupied = [&](const char* when) {
    for (size_t block = 0; block < empty.size(); ++block)
      ASSERT_EQ(updater.grid().occupied_blocks[block], ~empty[block]) << block << ", " << when;
  };
  expect_none_occupied("at the start");
  Update(&updater, HalfSpaceField(kSomething, kSomething), 1, 9);
  expect_none_occupied("after updates");
  EXPECT_EQ(updater.values()[0], 0);
  EXPECT_GT(updater.values()[64 + 63], 0);
  updater.SetBits(std::vector<uint64_t>(empty.size(), ~uint64_t{0}));
  expect_none_occupied("of a file");
  updater.Reopen();
  expect_none_occupied("reopened");
  updater.KeepEmpty({});
  EXPECT_EQ(updater.grid().OccupiedFraction(), 1);
}

TEST_F(OccupancyUpdaterTest, SameBytesForAnyNumberOfThreads) {
  const HalfSpaceField field(-1, kSomething);
  const auto run = [&](int n_threads) {
    ThreadPool pool(n_threads);
    OccupancyUpdater updater(config_, TinyGeometry());
    for (int i = 1; i < 6; ++i) updater.Update(ProbedDensity(field.Network()), 4 * i, &pool);
    return std::vector<float>(updater.values().begin(), updater.values().end());
  };
  const std::vector<float> one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

}  // namespace
}  // namespace nerf
