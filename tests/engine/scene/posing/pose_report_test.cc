#include "engine/scene/posing/pose_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "absl/strings/str_join.h"
#include "engine/scene/posing/pose_picture.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::array<uint8_t, 3> kOutline = {20, 60, 220};

// A report with a camera at each place; y points down, so that -y is up. All look along +x.
class PoseReportTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, double x, double z, std::array<double, 3> forward = {1, 0, 0}) {
    PosedPhoto photo;
    photo.center = {x, 0, z};
    photo.axes = {{{0, 0, -1}, {0, 1, 0}, forward}};
    photo.n_points = 500;
    model_.photos[name] = photo;
    AddUnposed(name, "");
    report_.photos.back().posed = true;
    ++report_.n_posed;
  }
  void AddUnposed(const std::string& name, const std::string& reason) {
    PhotoOutcome outcome;
    outcome.name = outcome.file = name;
    outcome.reason = reason;
    report_.photos.push_back(outcome);
  }
  // From the first to the last pixel of an outline in this row near x; 0 without any.
  int OutlineWidth(int x, int y) const {
    const ImageU8 picture = PictureFromAbove(report_, model_);
    int first = 0, last = -1;
    for (int i = x - 20; i <= x + 20; ++i) {
      if (!std::equal(kOutline.begin(), kOutline.end(), picture.Pixel(i, y))) continue;
      if (last < 0) first = i;
      last = i;
    }
    return last < 0 ? 0 : last - first + 1;
  }

  PoseReport report_;
  PosedModel model_;
};

TEST_F(PoseReportTest, ListNamesEachNumberOfThePicture) {
  Add("a.jpg", 0, 0);
  AddUnposed("b.jpg", "blur");
  Add("c.jpg", 4, 0);
  EXPECT_EQ(PosedListText(report_),
            "posed, by their number in pose.png:\n     1  a.jpg\n     3  c.jpg\n");
  const auto json = nlohmann::json::parse(PoseReportJson(report_, "out"));
  EXPECT_EQ(json["photos"][0]["number"], 1);
  EXPECT_EQ(json["photos"][1]["number"], 2);
  EXPECT_EQ(json["photos"][2]["name"], "c.jpg");
  EXPECT_EQ(json["photos"][2]["number"], 3);
  EXPECT_EQ(PosedListText(PoseReport()), "");
}

// The map has -z to the right and +x to the top here, 90 pixels a unit; so a is at (725, 950).
TEST_F(PoseReportTest, WedgesOpenInViewingDirection) {
  Add("a.jpg", 0, 0);
  Add("b.jpg", 10, 0);
  Add("c.jpg", 5, 5);
  EXPECT_EQ(OutlineWidth(725, 950), 5) << "the dot";
  EXPECT_GT(OutlineWidth(725, 950 - 24), OutlineWidth(725, 950 - 12) + 4);
  EXPECT_LT(OutlineWidth(725, 950 - 24), 20) << "slim";
  EXPECT_EQ(OutlineWidth(725, 950 - 30), 0);
  EXPECT_EQ(OutlineWidth(725, 950 + 5), 0) << "behind it";
}

TEST_F(PoseReportTest, CamerasThatLookDownAreDots) {
  Add("a.jpg", 0, 0, {0, 1, 0});
  Add("b.jpg", 10, 0);
  Add("c.jpg", 5, 5);
  EXPECT_EQ(OutlineWidth(725, 950), 5);
  for (int y = 3; y < 30; ++y) {
    EXPECT_EQ(OutlineWidth(725, 950 - y), 0) << y;
    EXPECT_EQ(OutlineWidth(725, 950 + y), 0) << y;
  }
}

// As above, 256 pixels with a margin of 12.
TEST_F(PoseReportTest, SketchHasPlacesAndDirectionsInBytes) {
  Add("a.jpg", 0, 0);
  Add("b.jpg", 10, 0);
  Add("c.jpg", 5, 5);
  model_.points.resize(1000);
  for (ColmapPoint& point : model_.points) point.position = {5, 0, 0};
  const PoseSketch sketch = SketchFromAbove(model_);
  EXPECT_EQ(sketch.points.size(), 2u * 250);
  ASSERT_EQ(sketch.cameras.size(), 9u);
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sketch.cameras[i]); };
  EXPECT_EQ(byte(0), 186);
  EXPECT_EQ(byte(1), 244);
  EXPECT_EQ(byte(2), 192) << "to the top, as the wedge opens";
  EXPECT_EQ(byte(4), 12);
  model_.photos["d.jpg"].center = {std::nan(""), 1, 1e300};
  EXPECT_LE(SketchFromAbove(model_).cameras.size(), 12u);
  EXPECT_EQ(SketchFromAbove({}).cameras, "");
}

// NaN, infinite and huge positions, as of a hostile model, are drawn outside or not at all.
TEST_F(PoseReportTest, PositionsThatAreNoNumbersDoNoHarm) {
  Add("a.jpg", 0, 0);
  Add("b.jpg", std::nan(""), 1);
  Add("c.jpg", 1e300, 1);
  Add("d.jpg", 1, -HUGE_VAL);
  EXPECT_EQ(PictureFromAbove(report_, model_).width, 1000);
}

// Where none is posed the advice follows the reasons.
TEST(PoseAdviceTest, NothingPosedSaysWhatToDoNext) {
  const auto advice_on = [](const Photo& like) {
    std::vector<Photo> photos;
    ColmapDatabase matches;
    for (int i = 0; i < 4; ++i) {
      photos.push_back(like);
      photos.back().name = photos.back().file = "p" + std::to_string(i) + ".jpg";
      matches.n_features[photos.back().file] = 1000;
    }
    const PoseReport report = MakePoseReport(photos, PosedModel(), {}, matches);
    EXPECT_THAT(PoseReportText(report), HasSubstr("photograph again:\n"));
    return absl::StrJoin(report.again, "\n");
  };
  Photo blurred, broken, twin;
  blurred.is_blurred = true;
  broken.error = "no picture";
  twin.double_of = "p.jpg";
  EXPECT_THAT(advice_on(Photo()), AllOf(HasSubstr("two thirds"), HasSubstr("turning on the spot"),
                                        Not(HasSubstr("steadier"))));
  EXPECT_THAT(advice_on(blurred), AllOf(HasSubstr("steadier hand"), Not(HasSubstr("sideways"))));
  EXPECT_THAT(advice_on(broken), HasSubstr("as JPEG"));
  EXPECT_THAT(advice_on(twin), HasSubstr("are doubles"));
}

}  // namespace
}  // namespace nerf
