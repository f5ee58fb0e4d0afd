// The bytes of a job's curve in the store.
#include "server/store/curve_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TrainingCurve Curve(std::vector<TestViewScore> scores) {
  return TrainingCurve(
      {{10, 1.5, 0.5, 20, 1e5, 1e6, std::nullopt}, {20, 3, 0.25, 22, 1e5, 1e6, 25.5}},
      std::move(scores));
}

TEST(CurveCodecTest, CurvesWithAndWithoutScoresComeBack) {
  for (const TrainingCurve& curve : {Curve({}), Curve({{"a.png", 30}, {"", -1.5}}), TrainingCurve(),
                                     TrainingCurve({}, {{"a.png", 30}})}) {
    const auto back = DecodeCurve(EncodeCurve(curve));
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(back->points(), curve.points());
    EXPECT_EQ(back->test_views(), curve.test_views());
  }
}

TEST(CurveCodecTest, CutAndChangedBytesAreDataLossOrAnotherCurve) {
  const std::string bytes = EncodeCurve(Curve({{"a.png", 30}}));
  for (size_t size = 1; size < bytes.size(); ++size) {
    const auto cut = DecodeCurve(bytes.substr(0, size));
    // A cut between two points cannot be told from a shorter curve.
    if (cut.ok()) {
      EXPECT_LT(cut->points().size(), 2u) << size;
      continue;
    }
    EXPECT_THAT(cut.status(), FailsWith(absl::StatusCode::kDataLoss, reason::kStoreCorrupt));
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x80);
    const auto read = DecodeCurve(changed);
    if (!read.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(read.status())) << i;
    }
  }
}

}  // namespace
}  // namespace nerf
