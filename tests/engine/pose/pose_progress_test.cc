#include "engine/pose/pose_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nerf {
namespace {

using ::testing::ElementsAre;

class PoseStagesTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  PoseStages stages_{[this](const PoseProgress& p) { lines_.push_back(PoseProgressText(p)); }};
};

TEST_F(PoseStagesTest, ReportsStageAndCount) {
  stages_.Expect(2);
  stages_.Begin("extracting features", "photographs", 4);
  stages_.Advance(3, 4);
  stages_.Begin("refining cameras", "iterations");
  stages_.Advance(7, 0);
  EXPECT_THAT(lines_, ElementsAre("1/2 extracting features: 0 of 4 photographs",
                                  "1/2 extracting features: 3 of 4 photographs",
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

TEST_F(PoseStagesTest, ExpectCountsFromTheCurrentStage) {
  stages_.Expect(1);
  stages_.Begin("placing cameras", "photographs");
  stages_.Expect(2);
  stages_.Begin("matching features", "blocks");
  stages_.Repeat();
  EXPECT_THAT(lines_,
              ElementsAre("1/1 placing cameras", "2/3 matching features", "2/3 matching features"));
}

TEST_F(PoseStagesTest, UnforeseenStageDoesNotExceedTheirNumber) {
  stages_.Begin("reading films", "frames");
  EXPECT_EQ(lines_.back(), "1/1 reading films");
}

}  // namespace
}  // namespace nerf
