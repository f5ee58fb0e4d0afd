#include "engine/train/empty_cells.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/field/kernels/ray_marching.h"
#include "engine/field/kernels/ray_sampling.h"
#include "engine/train/shown_pixels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

constexpr float kRadius = 0.5f;  // of a ball in the middle of the box

// n views of the ball from around it, `side` pixels wide.
std::vector<View> ViewsOfABall(int n, int side) {
  std::vector<View> views(n);
  const std::vector<Vec3> from = RandomDirections(n, 31);
  for (int v = 0; v < n; ++v) {
    Camera& camera = views[v].camera;
    camera = TinyCamera(side);
    const Vec3 back = from[v], right = Normalized(Cross({0.3f, 0.9f, 0.1f}, back));
    const Vec3 axes[] = {right, Cross(back, right), back, back * 3.0f};
    for (int c = 0; c < 4; ++c)
      for (int row = 0; row < 3; ++row) camera.camera_to_world.m[row][c] = axes[c][row];
    ImageU8& image = views[v].image;
    image = {side, side, 4, {}};
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const Ray ray =
            CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
        const bool hits = Norm(Cross(ray.origin, ray.direction)) < kRadius;
        image.pixels.insert(image.pixels.end(), {9, 9, 9, static_cast<uint8_t>(hits ? 255 : 0)});
      }
    }
  }
  return views;
}

class FindEmptyCellsTest : public testing::Test {
 protected:
  std::vector<uint64_t> Find(const std::vector<View>& views, int n_threads = 2) const {
    ThreadPool pool(n_threads);
    const auto pixels = [&](size_t i) { return std::span(views[i].image.pixels); };
    return FindEmptyCells(views, pixels, grid_, &pool);
  }
  // The least and the largest distance of cells' centers from that of the ball, of those that are
  // empty and of the others.
  struct Reach {
    float first_empty = 9, last_other = 0;
  };
  Reach ReachOf(const std::vector<uint64_t>& empty) const {
    OccupancyGrid marked = grid_;
    marked.occupied_blocks = empty;
    Reach reach;
    const float cell = 2.0f / static_cast<float>(grid_.resolution);
    for (int i = 0; i < grid_.resolution * grid_.resolution * grid_.resolution; ++i) {
      const int x = i % grid_.resolution, y = i / grid_.resolution % grid_.resolution,
                z = i / grid_.resolution / grid_.resolution;
      const auto at = [&](int c) { return (static_cast<float>(c) + 0.5f) * cell - 1; };
      const float distance = Norm({at(x), at(y), at(z)});
      if (marked.Occupied(0, x, y, z))
        reach.first_empty = std::min(reach.first_empty, distance);
      else if (distance < 1)  // which all views show
        reach.last_other = std::max(reach.last_other, distance);
    }
    return reach;
  }
  OccupancyGrid grid_ = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32);
};

TEST_F(FindEmptyCellsTest, WhatLiesBesideTheBallIsEmptyAndTheBallIsNot) {
  const float half_diagonal = std::sqrt(3.0f) / 32;
  for (const int side : {60, 300}) {  // in full, and reduced
    const std::vector<uint64_t> empty = Find(ViewsOfABall(24, side));
    ASSERT_EQ(empty.size(), grid_.occupied_blocks.size()) << side;
    const Reach reach = ReachOf(empty);
    EXPECT_GT(reach.first_empty, kRadius + half_diagonal) << side;
    EXPECT_LT(reach.last_other, kRadius + 0.3f) << side;
  }
}

TEST_F(FindEmptyCellsTest, MattesOfNothingRemoveNothingAndOtherThreadsChangeNothing) {
  std::vector<View> views = ViewsOfABall(12, 60);
  const std::vector<uint64_t> empty = Find(views);
  EXPECT_EQ(Find(views, 1), empty);
  std::vector<uint8_t>& pixels = views[5].image.pixels;
  std::fill(pixels.begin(), pixels.end(), 0);
  for (const int also : {1, 8}) {
    views[also].image.pixels = pixels;
    EXPECT_GT(ReachOf(Find(views)).first_empty, kRadius);
  }
  for (View& view : views) view.image.pixels = pixels;
  EXPECT_THAT(Find(views), testing::Each(0u));
}

TEST_F(FindEmptyCellsTest, AStopEndsItAtTheNextPictureAndSaysNothing) {
  const std::vector<View> views = ViewsOfABall(12, 60);
  ThreadPool pool(1);
  std::stop_source stop;
  size_t n_read = 0;
  const auto pixels = [&](size_t i) {
    if (++n_read == 5) stop.request_stop();
    return std::span(views[i].image.pixels);
  };
  EXPECT_TRUE(FindEmptyCells(views, pixels, grid_, &pool, stop.get_token()).empty());
  EXPECT_EQ(n_read, 5u);
}

TEST_F(FindEmptyCellsTest, PosesThatLeaveNothingInTheInnermostBoxRemoveNothing) {
  const std::vector<View> views = ViewsOfABall(12, 60);
  grid_ = FullOccupancyGrid({{0.6f, 0.6f, 0.6f}, {0.8f, 0.8f, 0.8f}}, 2, 32);
  EXPECT_TRUE(Find(views).empty());
}

TEST_F(FindEmptyCellsTest, FineGridsAreTestedEightCellsAtATime) {
  const std::vector<View> views = ViewsOfABall(8, 40);
  grid_ = FullOccupancyGrid(grid_.box, 1, 256);
  const std::vector<uint64_t> empty = Find(views);
  EXPECT_GT(ReachOf(empty).first_empty, kRadius);
  for (const uint64_t cells : empty) {
    const uint64_t corner = cells & 0x0505050505050505u & 0x0000ffff0000ffffu;
    const uint64_t rows = corner | corner << 1, layers = rows | rows << 4;
    ASSERT_EQ(cells, layers | layers << 16);
  }
}

TEST_F(FindEmptyCellsTest, NothingIsSaidWherePicturesDoNotTell) {
  const std::vector<View> views = ViewsOfABall(3, 16);
  EXPECT_FALSE(Find(views).empty());
  EXPECT_TRUE(Find({}).empty());
  std::vector<View> changed = views;
  changed[1].camera.time = 0.5f;
  EXPECT_TRUE(Find(changed).empty()) << "moving scenes";
  changed = views;
  changed[1].camera.k1 = 0.1f;
  EXPECT_TRUE(Find(changed).empty()) << "lenses that distort";
  changed = views;
  changed[1].camera.lens = LensModel::kFisheye;
  EXPECT_TRUE(Find(changed).empty()) << "fisheyes";
  changed = views;
  changed[1].image.n_channels = 3;
  EXPECT_TRUE(Find(changed).empty()) << "pictures without alpha";
}

// By marching the ray of each pixel. Views of 61x61 pixels share runs, and the last run has one
// pixel.
TEST_F(FindEmptyCellsTest, EveryRayThatMeetsACellBelongsToARunThatIsShown) {
  constexpr int kSide = 61, kViews = 9;
  const std::vector<View> views = ViewsOfABall(kViews, kSide);
  const std::vector<uint64_t> empty = Find(views);
  ThreadPool one(1), two(2);
  const std::vector<uint32_t> runs = FindShownRuns(views, grid_, empty, &two);
  EXPECT_EQ(FindShownRuns(views, grid_, empty, &one), runs);
  EXPECT_TRUE(std::is_sorted(runs.begin(), runs.end(), std::less_equal<>()));
  std::vector<uint64_t> blocks = empty;
  for (uint64_t& cells : blocks) cells = ~cells;
  const kernels::MarchGrid grid{
      .blocks = blocks.data(), .center = {}, .half_side = 1, .resolution = 32};
  size_t n_meet = 0;
  for (uint32_t pixel = 0; pixel < kViews * kSide * kSide; ++pixel) {
    const Camera& camera = views[pixel / (kSide * kSide)].camera;
    const uint32_t at = pixel % (kSide * kSide);
    const Ray ray = CameraRay(camera, static_cast<float>(at % kSide) + 0.5f,
                              static_cast<float>(at / kSide) + 0.5f);
    const kernels::MarchSteps steps{.step = 0.001f};
    kernels::MarchRay march = kernels::StartMarch(grid, steps, ray, 0);
    float middle, delta;
    if (kernels::MarchSamples(grid, steps, 1, &march, &middle, &delta) == 0) continue;
    ++n_meet;
    ASSERT_TRUE(std::binary_search(runs.begin(), runs.end(), pixel / kernels::kRunPixels)) << pixel;
  }
  EXPECT_GT(n_meet, 1000u);
  EXPECT_LT(runs.size() * kernels::kRunPixels, 0.6 * views.size() * kSide * kSide);
}

TEST_F(FindEmptyCellsTest, ACameraAmongTheCellsShowsAllOfItsPixels) {
  std::vector<View> views = ViewsOfABall(4, 64);
  const std::vector<uint64_t> empty = Find(views);
  views.resize(2);
  views[1].camera.camera_to_world = Mat34();
  ThreadPool pool(1);
  const std::vector<uint32_t> runs = FindShownRuns(views, grid_, empty, &pool);
  const auto of_second =
      std::count_if(runs.begin(), runs.end(), [](uint32_t run) { return run >= 256; });
  EXPECT_EQ(of_second, 256);
  EXPECT_LT(runs.size() - of_second, 230u);
}

// Cells behind a camera or beside its picture are not seen there.
TEST_F(FindEmptyCellsTest, CellsThatNoViewShowsMayHoldAnything) {
  std::vector<View> views = ViewsOfABall(2, 16);
  views[1] = views[0];
  for (View& view : views) {
    Mat34& pose = view.camera.camera_to_world;
    pose = Mat34();  // in the middle of the box, looks along -z
    std::fill(view.image.pixels.begin(), view.image.pixels.end(), 0);
    view.image.pixels[3] = 255;  // a corner: pictures of nothing do not count
  }
  OccupancyGrid empty = grid_;
  empty.occupied_blocks = Find(views);
  ASSERT_FALSE(empty.occupied_blocks.empty());
  EXPECT_TRUE(empty.Occupied(0, 16, 16, 2));
  EXPECT_FALSE(empty.Occupied(0, 16, 16, 30));
  EXPECT_FALSE(empty.Occupied(0, 30, 16, 12));
}

}  // namespace
}  // namespace nerf
