#include "engine/scene/posing/pose_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;

class PoseStagesTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  PoseProgress last_;
  FakeClock clock_;
  PoseStages stages_{[this](const PoseProgress& p) {
                       lines_.push_back(PoseProgressText(p));
                       last_ = p;
                     },
                     &clock_, /*n_threads=*/2};
};

TEST_F(PoseStagesTest, ReportsStageAndCount) {
  stages_.Expect(2);
  stages_.Begin("extracting features", "photographs", 4);
  stages_.Advance(3, 4);
  stages_.Begin("refining cameras", "iterations");
  stages_.Advance(7, 0);
  EXPECT_THAT(lines_, ElementsAre("1/2 extracting features: 0 of 4 photographs",
                                  "1/2 extracting features: 3 of 4 photographs",
                                  "1/2 extracting features: 4 of 4 photographs",
                                  "2/2 refining cameras", "2/2 refining cameras: 7 iterations"));
}

// The mapper begins to count again with each model.
TEST_F(PoseStagesTest, CountOfAStageNeverFalls) {
  stages_.Expect(1);
  stages_.Begin("placing cameras", "photographs", 50);
  stages_.Advance(48, 50);
  stages_.Advance(2, 50);
  EXPECT_EQ(lines_.back(), "1/1 placing cameras: 48 of 50 photographs");
}

// Fewer may be placed than the mapper has tried.
TEST_F(PoseStagesTest, EndedStageHasAllOrWhatIsSaid) {
  stages_.Begin("extracting features", "photographs", 50);
  stages_.Advance(48, 50);
  stages_.Begin("placing cameras", "photographs", 50);
  EXPECT_EQ(lines_[2], "1/1 extracting features: 50 of 50 photographs");
  stages_.Advance(50, 50);
  EXPECT_FALSE(last_.is_over);
  stages_.End(49);
  EXPECT_TRUE(last_.is_over);
  EXPECT_EQ(last_.done, 49);
  stages_.Begin("refining cameras", "iterations");
  EXPECT_EQ(lines_.size(), 7u) << "it ends once";
  EXPECT_FALSE(last_.is_over);
}

// COLMAP tells blocks of pairs.
TEST_F(PoseStagesTest, StageThatIsCountedInOtherPartsCountsPhotographs) {
  stages_.Begin("matching features", "photographs", 50, {PoseWork::kMatch, 100});
  clock_.Advance(absl::Seconds(10));
  stages_.AdvanceTo(3.0 / 7);
  EXPECT_EQ(last_.done, 21);
  EXPECT_NEAR(last_.eta_seconds, 10 * 4 / 3.0, 1e-9) << "by the share, not by whole photographs";
  stages_.AdvanceTo(2.0 / 7);
  EXPECT_EQ(last_.done, 21);
  stages_.AdvanceTo(1);
  EXPECT_EQ(last_.done, 50);
}

TEST_F(PoseStagesTest, ExpectCountsFromTheCurrentStage) {
  stages_.Expect(1);
  stages_.Begin("placing cameras", "photographs");
  stages_.Expect(2);
  stages_.Begin("matching features", "blocks");
  stages_.Repeat();
  EXPECT_THAT(lines_, ElementsAre("1/1 placing cameras", "1/3 placing cameras",
                                  "2/3 matching features", "2/3 matching features"));
}

TEST_F(PoseStagesTest, UnforeseenStageDoesNotExceedTheirNumber) {
  stages_.Begin("reading films", "frames");
  EXPECT_EQ(lines_.back(), "1/1 reading films");
}

TEST_F(PoseStagesTest, SaysWhatIsLeftAndHowFastPairsAreMatched) {
  stages_.Expect(2);
  stages_.Begin("matching features", "pairs", 100, {PoseWork::kMatch, 60},
                {{PoseWork::kPlace, 40}});
  EXPECT_EQ(lines_.back(), "1/2 matching features: 0 of 100 pairs, about 50 s left");
  EXPECT_EQ(last_.matches_per_second, 0);
  stages_.CountMatches(300'000);
  clock_.Advance(absl::Seconds(10));
  stages_.Advance(50, 100);
  EXPECT_EQ(last_.matches_per_second, 15'000);
  // Half took 10 s in place of 15: the rest takes 10 s, and 40 of cost as much less.
  EXPECT_NEAR(last_.eta_seconds, 10 + 40 * 10.0 / 30, 1e-9);
  clock_.Advance(absl::Seconds(10));
  stages_.Begin("placing cameras", "photographs", 50, {PoseWork::kPlace, 400});
  EXPECT_EQ(lines_.back(), "2/2 placing cameras: 0 of 50 photographs, about 2 min left");
  EXPECT_EQ(last_.matches_per_second, 15'000) << "of the last stage that matched";
}

TEST(PoseEtaTest, StagesThatAreOverCorrectThoseOfTheirKind) {
  PoseEta eta(4);
  eta.Begin({PoseWork::kExtract, 40}, {{PoseWork::kMatch, 40}, {PoseWork::kExtract, 400}}, 0);
  EXPECT_DOUBLE_EQ(eta.Remaining(0, 0), 120) << "four threads";
  EXPECT_DOUBLE_EQ(eta.Remaining(0, 15), 110) << "it is overdue: the others follow";
  eta.Begin({PoseWork::kMatch, 40}, {{PoseWork::kExtract, 400}}, 20);
  EXPECT_DOUBLE_EQ(eta.Remaining(0, 20), 20 + 200) << "half as fast as expected";
  EXPECT_DOUBLE_EQ(eta.Remaining(0.5, 50), 30 + 200) << "matching is slower, extraction is not";
  eta.Begin({PoseWork::kExtract, 400}, {}, 80);
  EXPECT_DOUBLE_EQ(eta.Remaining(0, 80), 200);
  EXPECT_DOUBLE_EQ(eta.Remaining(0.25, 100), 60) << "its own share counts most";
  EXPECT_DOUBLE_EQ(eta.Remaining(1, 180), 0);
}

TEST(PoseEtaTest, UnknownCostsAreNoEstimate) {
  PoseEta eta(2);
  EXPECT_EQ(eta.Remaining(0.5, 10), 0);
  eta.Begin({PoseWork::kRead, 0}, {{PoseWork::kMatch, 100}}, 0);
  EXPECT_EQ(eta.Remaining(0.5, 10), 0);
}

}  // namespace
}  // namespace nerf
