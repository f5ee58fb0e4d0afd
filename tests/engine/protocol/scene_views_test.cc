// The file that lists a data set's views.
#include "engine/protocol/scene_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace nerf::protocol {
namespace {

using absl::StatusCode;

SceneView View(const std::string& file) {
  SceneView view;
  view.file = file;
  view.width = 400;
  view.height = 300;
  view.fl_x = 351.5;
  view.fl_y = 352.5;
  view.cx = 200;
  view.cy = 149.25;
  for (int i = 0; i < 12; ++i) view.matrix.push_back(0.125 * i - 0.5);
  return view;
}

TEST(SceneViewsTest, ViewsSurviveARoundTrip) {
  SceneView lens = View("test/r_1.png");
  lens.is_test = true;
  lens.is_opencv = true;
  lens.k1 = 0.25;
  lens.k2 = -0.5;
  lens.k3 = 1e-9;
  lens.p1 = 1;
  lens.p2 = 2;
  lens.time = 0.75;
  const std::vector<SceneView> views = {View("train/r_0.png"), lens};
  EXPECT_EQ(*ParseSceneViews(ToText(views)), views);
  EXPECT_TRUE(ParseSceneViews(ToText({}))->empty());
}

TEST(SceneViewsTest, WrongTextsAreRefused) {
  const std::string text = ToText({View("a.png")});
  const auto with = [&](const std::string& old, const std::string& now) {
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return std::string(text).replace(at, old.size(), now);
  };
  for (const std::string& bad :
       {std::string("[]"), std::string("{\"views\":[3]}"), text.substr(0, text.size() / 2),
        with("\"a.png\"", "\"\""), with("\"a.png\"", "4"), with("\"width\":400", "\"width\":-1"),
        with("\"matrix\":[", "\"matrix\":[1,"), with("\"matrix\":[-0.5", "\"matrix\":[\"x\""),
        with("\"matrix\"", "\"matrices\""), with("\"fl_x\":351.5,", "")}) {
    EXPECT_THAT(ParseSceneViews(bad).status(), StatusIs(StatusCode::kInvalidArgument)) << bad;
  }
}

}  // namespace
}  // namespace nerf::protocol
