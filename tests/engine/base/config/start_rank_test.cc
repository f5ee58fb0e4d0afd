#include "engine/base/config/start_rank.h"

#include <gtest/gtest.h>

namespace nerf {
namespace {

TEST(StartRankTest, CaptureComesBeforeKindAndKindBeforeSamples) {
  const StartRank many{.n_samples = 9e6}, kind{.same_kind = true, .n_samples = 1e6},
      capture{.same_capture = true, .same_kind = true};
  EXPECT_LT(many, kind);
  EXPECT_LT(kind, capture);
  EXPECT_LT(capture, (StartRank{.same_capture = true, .same_kind = true, .n_samples = 1}));
  EXPECT_FALSE(kind < kind);
}

TEST(StartRankTest, ReasonSaysSceneSamplesAndNumbers) {
  EXPECT_EQ(StartReason({true, true, 40e6}, 2, 3, "model"),
            "trained on the same capture with 40.0 M samples; of 3 models, 2 can be taken over");
  EXPECT_EQ(StartReason({false, true, 0}, 1, 1, "file"),
            "trained on a scene of the same kind; of 1 file, 1 can be taken over");
  EXPECT_EQ(StartReason({false, false, 1e5}, 1, 2, "file"),
            "trained on a scene of another kind with 0.1 M samples; of 2 files, 1 can be taken "
            "over");
}

}  // namespace
}  // namespace nerf
