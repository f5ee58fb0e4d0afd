// The parts of `nerf-engine explain`, on a painted wall at z = 0 that is seen exactly.
#include "engine/views/measure/scene_measures.h"

#include <cmath>
#include <vector>

#include "engine/base/philox.h"
#include "engine/views/measure/photograph_matches.h"
#include "engine/views/measure/seen_points.h"
#include "gtest/gtest.h"

namespace nerf {
namespace {

constexpr float kDistance = 3;

// At (x, y), turned to the left and then down.
Camera WallCamera(float x, float y, float left = 0, float down = 0) {
  Camera camera;
  camera.width = 96, camera.height = 80;
  camera.fl_x = camera.fl_y = 90;
  camera.cx = 48, camera.cy = 40;
  const float c = std::cos(left), s = std::sin(left), v = std::cos(down), w = std::sin(down);
  camera.camera_to_world = {{{c, -s * w, s * v, x}, {0, v, w, y}, {-s, -c * w, c * v, kDistance}}};
  return camera;
}

// Smooth noise, 0 to 1.
float Paint(float x, float y) {
  const auto at = [](int i, int j) {
    return UniformFloat(RandomWords(1, RandomUse::kInit, static_cast<uint32_t>(i + 1000),
                                    static_cast<uint32_t>(j + 1000))[0]);
  };
  x *= 6, y *= 6;
  const int i = static_cast<int>(std::floor(x)), j = static_cast<int>(std::floor(y));
  const float u = x - static_cast<float>(i), v = y - static_cast<float>(j);
  return (1 - v) * ((1 - u) * at(i, j) + u * at(i + 1, j)) +
         v * ((1 - u) * at(i, j + 1) + u * at(i + 1, j + 1));
}

DepthView Photograph(const Camera& camera) {
  DepthView view{camera, {}, {}};
  for (int y = 0; y < camera.height; ++y) {
    for (int x = 0; x < camera.width; ++x) {
      const Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
      const float t = -ray.origin.z / ray.direction.z;
      const Vec3 point = ray.origin + ray.direction * t;
      view.depths.push_back(t);
      view.gray.push_back(Paint(point.x, point.y));
    }
  }
  return view;
}

// A dozen cameras that look at the wall from several sides.
std::vector<DepthView> Photographs() {
  std::vector<DepthView> views;
  for (int i = 0; i < 12; ++i) {
    const float x = static_cast<float>(i % 4) - 1.5f, y = static_cast<float>(i / 4) - 1.0f;
    views.push_back(Photograph(WallCamera(x, y, 0.3f * x, 0.3f * y)));
  }
  return views;
}

TEST(SceneMeasuresTest, MatchesAgreeWithTrueCamerasAndNotWithATurnedOne) {
  ThreadPool pool(2);
  std::vector<DepthView> views = Photographs();
  const MatchErrors right = MatchPhotographs(views, &pool);
  EXPECT_LT(right.error, 0.5) << "pixels";
  EXPECT_NEAR(right.focal_scale, 1, 0.03);
  for (float& value : views[5].gray) value *= 0.6f;
  const MatchErrors dark = MatchPhotographs(views, &pool);
  EXPECT_NEAR(dark.exposures[5], 0.6, 0.03);
  EXPECT_NEAR(dark.exposures[6], 1, 0.03) << "beside it";
  views[5].camera.camera_to_world.m[1][3] += 0.15f;
  const MatchErrors stray = MatchPhotographs(views, &pool);
  EXPECT_GT(stray.of_view[5], 1.5);
  for (size_t i = 0; i < views.size(); ++i) {
    if (i == 5) continue;
    EXPECT_LT(stray.of_view[i], stray.of_view[5] / 2) << i;
  }
}

TEST(SceneMeasuresTest, MatchesFindACommonErrorOfTheFocalLength) {
  ThreadPool pool(2);
  std::vector<DepthView> views = Photographs();
  for (DepthView& view : views) {
    view.camera.fl_x *= 1.15f;
    view.camera.fl_y *= 1.15f;
  }
  const MatchErrors errors = MatchPhotographs(views, &pool);
  EXPECT_NEAR(errors.focal_scale, 1 / 1.15, 0.04);
  EXPECT_LT(errors.error_at_scale, 0.8 * errors.error);
}

TEST(SceneMeasuresTest, CountsViewsThatSeeAPointWhereNothingIsInFront) {
  const DepthView view = Photograph(WallCamera(0, 0));
  std::vector<DepthView> others = {Photograph(WallCamera(0.2f, 0)), Photograph(WallCamera(9, 0))};
  const size_t middle = static_cast<size_t>(40) * 96 + 48;
  EXPECT_EQ(CountSeeing(view, others, 3)[middle], 1) << "one looks elsewhere";
  others.push_back(others[0]);
  EXPECT_EQ(CountSeeing(view, others, 3)[middle], 2);
  for (float& depth : others[2].depths) depth *= 1.5f;
  EXPECT_EQ(CountSeeing(view, others, 3)[middle], 2) << "fog near `view` hides nothing from it";
  for (float& depth : others[2].depths) depth *= 0.3f;
  EXPECT_EQ(CountSeeing(view, others, 3)[middle], 1) << "something hides it";
  DepthView empty = view;
  empty.depths[middle] = 0;
  EXPECT_EQ(CountSeeing(empty, others, 3)[middle], 3) << "nothing is there to see";
}

TEST(SceneMeasuresTest, RegionsOfLargeErrorsMeetWhereTheyAre) {
  std::vector<Camera> cameras;
  std::vector<ErrorRegion> regions;
  for (int i = 0; i < 6; ++i) {
    cameras.push_back(WallCamera(0.3f * static_cast<float>(i), 0));
    ImageU8 photograph{96, 80, 3, std::vector<uint8_t>(static_cast<size_t>(3) * 96 * 80, 100)};
    ImageU8 rendered = photograph;
    float x, y;
    ASSERT_TRUE(ProjectPoint(cameras[i], {0.5f, 0.2f, 0.5f}, &x, &y));
    for (int v = static_cast<int>(y) - 5; i < 4 && v <= static_cast<int>(y) + 5; ++v) {
      for (int u = static_cast<int>(x) - 5; u <= static_cast<int>(x) + 5; ++u)
        rendered.pixels[3 * (static_cast<size_t>(v) * 96 + u)] = 250;
    }
    rendered.pixels[0] = 130;  // the rest does not agree exactly
    regions.push_back(FindErrorRegion(photograph, rendered));
    EXPECT_EQ(regions[i].gain_db > 3, i < 4) << i;
  }
  const ErrorPlace place = MeetingPlace(cameras, regions, 1);
  EXPECT_EQ(place.views, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(place.n_showing, 6);
  EXPECT_LT(Norm(place.point - Vec3{0.5f, 0.2f, 0.5f}), 0.15f);
}

}  // namespace
}  // namespace nerf
