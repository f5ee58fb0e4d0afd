#include "engine/base/config/slow_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SlowViewsReasonTest, LongEvaluationOfAFullGridSaysWhy) {
  EXPECT_THAT(SlowViewsReason(absl::Seconds(50), 0.973),
              AllOf(HasSubstr("barely trained"), HasSubstr("97% of its space")));
}

TEST(SlowViewsReasonTest, NothingIsSaidOfWhatIsFastOrTrained) {
  EXPECT_THAT(SlowViewsReason(absl::Seconds(1), 1.0), IsEmpty());
  EXPECT_THAT(SlowViewsReason(absl::Seconds(50), 0.05), IsEmpty());
  EXPECT_THAT(SlowViewsReason(absl::Seconds(50), std::nullopt), IsEmpty());
}

}  // namespace
}  // namespace nerf
