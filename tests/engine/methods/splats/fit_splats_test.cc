#include "engine/methods/splats/fit_splats.h"

#include <cmath>
#include <vector>

#include "engine/methods/splats/rasterizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

// Cameras on a circle, looking at the origin.
std::vector<Camera> Cameras(int n) {
  std::vector<Camera> cameras;
  for (int i = 0; i < n; ++i) {
    const float angle = 6.2831853f * static_cast<float>(i) / static_cast<float>(n);
    const float c = std::cos(angle), s = std::sin(angle);
    Camera camera;
    camera.width = 40;
    camera.height = 30;
    camera.fl_x = camera.fl_y = 45;
    camera.cx = 20;
    camera.cy = 15;
    camera.camera_to_world = {{{c, 0, s, 2.5f * s}, {0, 1, 0, 0}, {-s, 0, c, 2.5f * c}}};
    cameras.push_back(camera);
  }
  return cameras;
}

// Splats in a cube, each as another color.
SplatCloud Cloud(size_t n, uint32_t stream, float opacity) {
  SplatCloud cloud;
  cloud.degree = 1;
  cloud.numbers.resize(n * static_cast<size_t>(cloud.row_size()));
  for (size_t i = 0; i < n; ++i) {
    const std::vector<float> random = RandomFloats(16, -1, 1, stream + static_cast<uint32_t>(i));
    float* const row = cloud.row(i);
    for (int axis = 0; axis < 3; ++axis) {
      row[axis] = 0.5f * random[axis];
      row[SplatCloud::kLogScale + axis] = -2.5f + 0.5f * random[3 + axis];
      row[SplatCloud::kColor + axis] = 1.5f * random[6 + axis];
    }
    row[SplatCloud::kRotation] = 1;
    row[SplatCloud::kOpacity] = opacity;
    cloud.widths.push_back(0.005f);
  }
  return cloud;
}

std::vector<SplatView> ViewsOf(const SplatCloud& cloud, const std::vector<Camera>& cameras) {
  ThreadPool pool(2);
  SplatRasterizer rasterizer(&pool);
  std::vector<SplatView> views;
  for (const Camera& camera : cameras) {
    SplatView view{camera, std::vector<uint8_t>(size_t{4} * 40 * 30)};
    rasterizer.Begin(cloud, camera);
    rasterizer.Draw([&](const SplatTile& tile, const kernels::SplatTilePixels& drawn) {
      for (int y = 0; y < tile.height; ++y) {
        for (int x = 0; x < tile.width; ++x) {
          uint8_t* const rgba = &view.rgba[4 * ((tile.top + y) * 40 + tile.left + x)];
          const int i = y * kernels::kSplatTile + x;
          for (int channel = 0; channel < 3; ++channel) {
            rgba[channel] =
                static_cast<uint8_t>(std::lround(255 * std::min(1.0f, drawn.colors[channel][i])));
          }
          rgba[3] = static_cast<uint8_t>(std::lround(255 * (1 - drawn.transmittances[i])));
        }
      }
    });
    views.push_back(std::move(view));
  }
  return views;
}

SplatCloud Fitted(int n_threads, const std::vector<SplatView>& views, int n_steps) {
  SplatCloud cloud = Cloud(400, 5000, -1);
  ThreadPool pool(n_threads);
  FitSplats(
      views, {.n_steps = n_steps}, &pool, {}, [](int) {}, &cloud);
  return cloud;
}

TEST(FitSplatsTest, SplatsBecomeWhatTheViewsShow) {
  const SplatCloud wanted = Cloud(60, 0, 2);
  const std::vector<SplatView> views = ViewsOf(wanted, Cameras(16));
  // Between those.
  std::vector<Camera> others = Cameras(32);
  const std::vector<SplatView> held = ViewsOf(wanted, {others[3], others[11], others[21]});
  ThreadPool pool(2);
  EXPECT_GT(SplatPsnr(wanted, held, &pool), 50);
  const double before = SplatPsnr(Cloud(400, 5000, -1), held, &pool);
  const double after = SplatPsnr(Fitted(2, views, 600), held, &pool);
  EXPECT_LT(before, 20);
  EXPECT_GT(after, 27);
}

TEST(FitSplatsTest, BytesDoNotDependOnThreads) {
  const std::vector<SplatView> views = ViewsOf(Cloud(60, 0, 2), Cameras(4));
  const SplatCloud one = Fitted(1, views, 120), three = Fitted(3, views, 120);
  EXPECT_EQ(one.numbers, three.numbers);
  EXPECT_EQ(one.widths, three.widths);
}

TEST(FitSplatsTest, SplatsThatNobodySeesAreUsedElsewhere) {
  const std::vector<SplatView> views = ViewsOf(Cloud(60, 0, 2), Cameras(8));
  SplatCloud cloud = Cloud(200, 5000, -1);
  for (size_t i = 0; i < 50; ++i) cloud.row(i)[SplatCloud::kOpacity] = -9;
  ThreadPool pool(2);
  FitSplats(
      views, {.n_steps = 200}, &pool, {}, [](int) {}, &cloud);
  int n_used = 0;
  for (size_t i = 0; i < 50; ++i) n_used += cloud.row(i)[SplatCloud::kOpacity] > -5;
  EXPECT_GT(n_used, 40);
}

TEST(FitSplatsTest, StopEndsIt) {
  const std::vector<SplatView> views = ViewsOf(Cloud(60, 0, 2), Cameras(4));
  std::stop_source stop;
  int n_done = 0;
  SplatCloud cloud = Cloud(50, 5000, -1);
  ThreadPool pool(1);
  FitSplats(
      views, {.n_steps = 1000}, &pool, stop.get_token(),
      [&](int n_steps) {
        n_done = n_steps;
        if (n_steps == 7) stop.request_stop();
      },
      &cloud);
  EXPECT_EQ(n_done, 7);
}

}  // namespace
}  // namespace nerf
