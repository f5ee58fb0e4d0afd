#include "engine/tool/evaluation_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SlownessTextTest, LongEvaluationOfAFullGridSaysWhy) {
  EXPECT_THAT(SlownessText({absl::Seconds(50), 0.973}),
              AllOf(HasSubstr("barely trained"), HasSubstr("97% of its space")));
}

TEST(SlownessTextTest, NothingIsSaidOfWhatIsFastOrTrained) {
  EXPECT_THAT(SlownessText({absl::Seconds(1), 1.0}), IsEmpty());
  EXPECT_THAT(SlownessText({absl::Seconds(50), 0.05}), IsEmpty());
  EXPECT_THAT(SlownessText({absl::Seconds(50), std::nullopt}), IsEmpty());
}

}  // namespace
}  // namespace nerf
