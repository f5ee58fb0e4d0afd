#include "engine/base/config/view_style_check.h"

#include <cmath>
#include <limits>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

TEST(ViewStyleCheckTest, BoxesAreReadWithAndWithoutATurn) {
  const auto box = ParseOwnBox("--crop", "1,-2,0.5,2,3,4");
  ASSERT_THAT(box, IsOk());
  EXPECT_EQ(*box, (OwnBox{{1, -2, 0.5}, {2, 3, 4}}));
  const auto turned = ParseOwnBox("--crop", "0,0,0,1,1,1,0,0.6,0,0.8");
  ASSERT_THAT(turned, IsOk());
  EXPECT_EQ(turned->turn[1], 0.6);
}

TEST(ViewStyleCheckTest, HostileBoxesAreRefusedByName) {
  constexpr struct {
    const char* text;
    const char* words;
  } kCases[] = {{"", "--crop"},
                {"1,2,3,4,5", "center and three sides"},
                {"1,2,3,4,5,6,7", "center and three sides"},
                {"1,2,3,4,5,6,0,0,0,1,9", "center and three sides"},
                {"a,2,3,4,5,6", "center and three sides"},
                {"0,0,0,1,1,", "center and three sides"},
                {"0;0;0;1;1;1", "center and three sides"},
                {"nan,0,0,1,1,1", "center[0]"},
                {"0,inf,0,1,1,1", "center[1]"},
                {"0,0,1e10,1,1,1", "center[2]"},
                {"0,0,0,0,1,1", "size[0]"},
                {"0,0,0,1,-1,1", "size[1]"},
                {"0,0,0,1,1,nan", "size[2]"},
                {"0,0,0,1,1,inf", "size[2]"},
                {"0,0,0,1e300,1,1", "size[0]"},
                {"0,0,0,1e-300,1,1", "size[0]"},
                {"0,1e8,0,1,1e-3,1", "too short"},
                {"0,0,0,1,1,1,0,0,0,0", "length 1"},
                {"0,0,0,1,1,1,0,0,0,2", "length 1"},
                {"0,0,0,1,1,1,nan,0,0,1", "length 1"},
                {"0,0,0,1,1,1,1,1,1,1", "length 1"}};
  for (const auto& [text, words] : kCases)
    EXPECT_THAT(ParseOwnBox("--crop", text), StatusIs(StatusCode::kInvalidArgument, words)) << text;
}

TEST(ViewStyleCheckTest, ColorsAreNamesOrHex) {
  EXPECT_EQ(*ParseColor("--background", "white"), (Vec3{1, 1, 1}));
  EXPECT_EQ(*ParseColor("--background", "#ff0033"), (Vec3{1, 0, 0.2f}));
  for (const char* text : {"", "red", "#", "#ff00", "#ff00333", "ff0033", "#gg0000", "#-10000"}) {
    EXPECT_THAT(ParseColor("--background", text),
                StatusIs(StatusCode::kInvalidArgument, "--background"))
        << text;
  }
}

TEST(ViewStyleCheckTest, EveryWrongFlagIsNamed) {
  StyleFlags flags{.background = "red", .crop = "1", .stereo = "both"};
  for (const char* name : {"--background", "--crop", "--stereo"})
    EXPECT_THAT(ParseStyle(flags), StatusIs(StatusCode::kInvalidArgument, name));
  flags = {.stereo = "top-bottom", .eye_distance = 0.06};
  EXPECT_THAT(ParseStyle(flags), StatusIs(StatusCode::kInvalidArgument, "--panorama"));
  flags.panorama = true;
  EXPECT_THAT(ParseStyle(flags), IsOk());
  for (const double eyes : {0.0, -1.0, 1e10, std::nan("")}) {
    flags.eye_distance = eyes;
    EXPECT_THAT(ParseStyle(flags), StatusIs(StatusCode::kInvalidArgument, "--eye-distance"));
  }
  EXPECT_THAT(ParseStyle({.panorama = true, .eye_distance = 1}),
              StatusIs(StatusCode::kInvalidArgument, "--eye-distance"));
}

TEST(ViewStyleCheckTest, FieldsOutOfRangeAreNamed) {
  ViewStyle style;
  EXPECT_THAT(ProblemsOf(style).Result(), IsOk());
  style.background = {0, 1.5f, std::numeric_limits<float>::quiet_NaN()};
  style.crop.emplace().size[1] = -1;
  style.panorama = {StereoLayout::kLeftRight, 0};
  for (const char* field :
       {"background[1]", "background[2]", "crop.size[1]", "panorama.eye_distance"})
    EXPECT_THAT(ProblemsOf(style).Result(), StatusIs(StatusCode::kInvalidArgument, field));
}

TEST(ViewStyleCheckTest, PanoramasHaveTheirShape) {
  const auto size = [](StereoLayout stereo, ViewSize asked) {
    const auto found = PanoramaSize(stereo, asked);
    return found.ok() ? std::pair(found->width, found->height) : std::pair<int64_t, int64_t>();
  };
  using Sides = std::pair<int64_t, int64_t>;
  EXPECT_EQ(size(StereoLayout::kMono, {}), Sides(2048, 1024));
  EXPECT_EQ(size(StereoLayout::kTopBottom, {}), Sides(2048, 2048));
  EXPECT_EQ(size(StereoLayout::kLeftRight, {}), Sides(4096, 1024));
  EXPECT_EQ(size(StereoLayout::kMono, {.width = 400}), Sides(400, 200));
  EXPECT_EQ(size(StereoLayout::kLeftRight, {.height = 100}), Sides(400, 100));
  EXPECT_EQ(size(StereoLayout::kMono, {401, 200}), Sides());
  EXPECT_EQ(size(StereoLayout::kTopBottom, {101, 101}), Sides()) << "no half";
  EXPECT_EQ(size(StereoLayout::kMono, {.height = 16384}), Sides()) << "too wide";
  EXPECT_EQ(size(StereoLayout::kMono, {.width = 1}), Sides());
}

}  // namespace
}  // namespace nerf
