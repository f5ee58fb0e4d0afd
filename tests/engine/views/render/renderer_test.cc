#include "engine/views/render/renderer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "gtest/gtest.h"
#include "tests/testing/borrowed_field.h"

namespace nerf {
namespace {

constexpr float kStep = 0.01f;
constexpr Vec3 kBlue{0.1f, 0.2f, 0.9f};

// A scene given by formulas. Counts the points it was asked for.
class FormulaField : public RadianceField {
 public:
  using Density1 = std::function<float(Vec3)>;
  using Color1 = std::function<Vec3(Vec3 position, Vec3 direction)>;
  FormulaField(Density1 density, Color1 color)
      : density_(std::move(density)), color_(std::move(color)) {}

  std::unique_ptr<Workspace> NewWorkspace(int) const override {
    return std::make_unique<Positions>();
  }
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override {
    n_asked_ += n;
    static_cast<Positions*>(workspace)->last.assign(positions, positions + n);
    for (int i = 0; i < n; ++i) sigmas[i] = density_(positions[i]);
  }
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override {
    n_colored_ += n;
    const std::vector<Vec3>& positions = static_cast<Positions*>(workspace)->last;
    for (int i = 0; i < n; ++i) colors[i] = color_(positions[samples[i]], directions[i]);
  }
  int64_t n_asked() const { return n_asked_; }
  int64_t n_colored() const { return n_colored_; }

 private:
  struct Positions : Workspace {
    std::vector<Vec3> last;
  };

  Density1 density_;
  Color1 color_;
  mutable std::atomic<int64_t> n_asked_{0}, n_colored_{0};
};

Vec3 White(Vec3, Vec3) { return {1, 1, 1}; }

SceneGeometry Geometry() {
  SceneGeometry geometry;
  geometry.near = 0.1f;
  geometry.step = kStep;
  return geometry;
}

// Looks along -z from (0, 0, 4) at the box of side 2; 35 x 19 pixels are no whole number of tiles.
Camera FrontCamera() {
  Camera camera;
  camera.width = 35;
  camera.height = 19;
  camera.fl_x = camera.fl_y = 60;
  camera.cx = 17.5f;
  camera.cy = 9.5f;
  camera.camera_to_world.m[2][3] = 4;
  return camera;
}

constexpr int kMiddlePixel = 9 * 35 + 17;  // its ray runs along the axis

RenderedView Render(const RadianceField& field, const OccupancyGrid& grid,
                    const RenderOptions& options, int n_threads = 2) {
  ThreadPool pool(n_threads);
  const auto model = ModelOf(field, grid, Geometry());
  ViewRender view(*model, Geometry().near, FrontCamera(), options);
  EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
  EXPECT_TRUE(view.finished());
  return view.TakeView();
}

// A different color at each pixel.
FormulaField Ripples() {
  return {[](Vec3 p) { return 3 + 3 * std::sin(9 * p.x) * std::cos(7 * p.y); },
          [](Vec3 p, Vec3) {
            return Vec3{std::abs(p.x), std::abs(p.y), 0.5f};
          }};
}

OccupancyGrid FullGrid() { return FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32); }

TEST(RendererTest, HazeHasNoDepthAndWhatStopsATenthOfTheLightHas) {
  // The middle ray crosses two units: opacity 1 - exp(-2 sigma), middle of the slab at 4.
  const auto middle_of = [](float sigma) {
    const FormulaField field([=](Vec3) { return sigma; }, White);
    const RenderedView view = Render(field, FullGrid(), {});
    return std::pair(view.opacities[kMiddlePixel], view.depths[kMiddlePixel]);
  };
  const auto [thin_opacity, thin_depth] = middle_of(0.04f);
  EXPECT_NEAR(thin_opacity, 0.077, 0.005);
  EXPECT_EQ(thin_depth, 0);
  const auto [opacity, depth] = middle_of(0.07f);
  EXPECT_NEAR(opacity, 0.13, 0.005);
  EXPECT_NEAR(depth, 4, 0.1);
}

TEST(RendererTest, ThinSamplesAreSeenTogetherAndNoLightIsLost) {
  // 200 samples of 1/1000 each along the axis.
  const FormulaField haze([](Vec3) { return 0.1f; }, White);
  const RenderedView view = Render(haze, FullGrid(), {.background = {0, 0, 0}});
  EXPECT_NEAR(view.opacities[kMiddlePixel], 1 - std::exp(-0.2f), 0.002);
  EXPECT_NEAR(view.colors[kMiddlePixel].x, view.opacities[kMiddlePixel], 1e-5);
  EXPECT_LT(haze.n_colored() * 4, haze.n_asked());
  EXPECT_GT(haze.n_colored() * 6, haze.n_asked());
}

TEST(RendererTest, UniformSlabLetsThroughWhatBeersLawSays) {
  constexpr float kSigma = 0.8f;
  const FormulaField field([](Vec3) { return kSigma; }, White);
  const RenderedView view = Render(field, FullGrid(), {.background = kBlue});
  ASSERT_EQ(view.opacities.size(), 35u * 19);
  for (int y = 0; y < 19; ++y) {
    for (int x = 0; x < 35; ++x) {
      const float u = (x + 0.5f - 17.5f) / 60, v = (y + 0.5f - 9.5f) / 60;
      const float per_depth = std::sqrt(1 + u * u + v * v);
      // From z = 1 to z = -1, or out through a side where the ray gets there first.
      const float exit_depth = std::min(5.0f, 1 / std::max(std::abs(u), std::abs(v)));
      const float length = std::max(0.0f, exit_depth - 3) * per_depth;
      const float left = std::exp(-kSigma * length);
      const size_t pixel = y * 35 + x;
      // A ray meets the slab in whole steps: up to one step and a half of it is missed.
      const float tolerance = kSigma * 1.5f * kStep * left + 1e-4f;
      EXPECT_NEAR(view.opacities[pixel], 1 - left, tolerance) << x << ", " << y;
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(view.colors[pixel][c], 1 - left + kBlue[c] * left, tolerance) << x << ", " << y;
      }
    }
  }
}

TEST(RendererTest, FrontSlabCoversTheBackSlab) {
  constexpr float kFront = 1.5f, kBack = 3;
  const FormulaField field([](Vec3 p) { return p.z > 0 ? kFront : kBack; },
                           [](Vec3 p, Vec3) {
                             return p.z > 0 ? Vec3{1, 0, 0} : Vec3{0, 1, 0};
                           });
  const RenderedView view = Render(field, FullGrid(), {.background = {0, 0, 1}});
  const float through_front = std::exp(-kFront), through_both = through_front * std::exp(-kBack);
  const Vec3 color = view.colors[kMiddlePixel];
  EXPECT_NEAR(color.x, 1 - through_front, 1.5f * kFront * kStep);
  EXPECT_NEAR(color.y, through_front - through_both, 1.5f * kBack * kStep);
  EXPECT_NEAR(color.z, through_both, 1.5f * kBack * kStep * through_both);
}

TEST(RendererTest, OpaqueSphereHasTheDepthOfItsSurface) {
  const FormulaField field([](Vec3 p) { return Norm(p) < 0.5f ? 1e5f : 0.0f; }, White);
  const RenderedView view = Render(field, FullGrid(), {.background = kBlue});
  int n_hit = 0;
  for (int y = 0; y < 19; ++y) {
    for (int x = 0; x < 35; ++x) {
      const size_t pixel = y * 35 + x;
      const Vec3 d = Normalized({(x + 0.5f - 17.5f) / 60, (9.5f - y - 0.5f) / 60, -1});
      const float along = -4 * d.z, inside = 0.25f - (16 - along * along);
      if (std::abs(inside) < 0.02f) continue;  // the silhouette: steps may miss it
      if (inside < 0) {
        EXPECT_EQ(view.opacities[pixel], 0);
        EXPECT_EQ(view.depths[pixel], 0);
        EXPECT_EQ(view.colors[pixel], kBlue);
      } else {
        EXPECT_NEAR(view.opacities[pixel], 1, 1e-6f);
        EXPECT_NEAR(view.depths[pixel], along - std::sqrt(inside), 1.5f * kStep);
        ++n_hit;
      }
    }
  }
  EXPECT_GT(n_hit, 100);
}

TEST(RendererTest, ColorIsSeenAlongTheDirectionOfTheRay) {
  const FormulaField field([](Vec3) { return 1e5f; },
                           [](Vec3, Vec3 d) {
                             return d * 0.5f + Vec3{0.5f, 0.5f, 0.5f};
                           });
  const RenderedView view = Render(field, FullGrid(), {});
  const Vec3 along_axis = view.colors[kMiddlePixel];
  EXPECT_NEAR(along_axis.x, 0.5f, 1e-6f);
  EXPECT_NEAR(along_axis.y, 0.5f, 1e-6f);
  EXPECT_NEAR(along_axis.z, 0, 1e-6f);
  EXPECT_GT(view.colors[9 * 35 + 30].x, 0.55f);  // to the right
  EXPECT_GT(view.colors[1 * 35 + 17].y, 0.55f);  // upwards
}

TEST(RendererTest, UnoccupiedCellsAddNothingAndAreNotEvaluated) {
  OccupancyGrid grid = FullGrid();
  std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
  const FormulaField field([](Vec3) { return 1e5f; }, White);
  const RenderedView view = Render(field, grid, {.background = kBlue});
  for (const Vec3& color : view.colors) EXPECT_EQ(color, kBlue);
  for (float opacity : view.opacities) EXPECT_EQ(opacity, 0);
  EXPECT_EQ(field.n_asked(), 0);
}

TEST(RendererTest, RaysStopBehindAnOpaqueWall) {
  const FormulaField wall([](Vec3) { return 1e5f; }, White);
  const FormulaField air([](Vec3) { return 0.0f; }, White);
  Render(wall, FullGrid(), {});
  Render(air, FullGrid(), {});
  EXPECT_LT(wall.n_asked() * 20, air.n_asked());
}

TEST(RendererTest, BytesDoNotDependOnTheNumberOfThreads) {
  const FormulaField field = Ripples();
  const RenderedView one = Render(field, FullGrid(), {}, 1);
  for (int n_threads : {2, 5}) {
    const RenderedView view = Render(field, FullGrid(), {}, n_threads);
    EXPECT_EQ(view.colors, one.colors);
    EXPECT_EQ(view.opacities, one.opacities);
    EXPECT_EQ(view.depths, one.depths);
  }
}

TEST(RendererTest, StoppedWorkIsNotWholeAndGoesOnWhereItWas) {
  const FormulaField field = Ripples();
  std::stop_source stop;
  stop.request_stop();
  ThreadPool pool(2);
  const OccupancyGrid grid = FullGrid();
  const auto model = ModelOf(field, grid, Geometry());
  ViewRender view(*model, Geometry().near, FrontCamera(), {});
  EXPECT_FALSE(view.Advance(&pool, nullptr, stop.get_token()));
  EXPECT_FALSE(view.finished());
  EXPECT_EQ(field.n_asked(), 0);
  EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
  EXPECT_EQ(view.TakeView().colors, Render(field, FullGrid(), {}).colors);
}

TEST(RendererTest, WorkThatPausesAfterEveryTileGivesTheSameBytes) {
  const FormulaField field = Ripples();
  const OccupancyGrid grid = FullGrid();
  const RenderedView at_once = Render(field, grid, {});
  ThreadPool pool(1);
  const auto model = ModelOf(field, grid, Geometry());
  ViewRender view(*model, Geometry().near, FrontCamera(), {});
  int n_pauses = 0;
  while (!view.Advance(&pool, [] { return true; }, {})) ++n_pauses;
  EXPECT_EQ(n_pauses, 5);  // of 3 x 2 tiles; the last one makes it whole
  EXPECT_TRUE(view.finished());
  const RenderedView whole = view.TakeView();
  EXPECT_EQ(whole.colors, at_once.colors);
  EXPECT_EQ(whole.opacities, at_once.opacities);
  EXPECT_EQ(whole.depths, at_once.depths);
}

TEST(RendererTest, PassesRefineTheViewToTheSameBytes) {
  const FormulaField field = Ripples();
  const OccupancyGrid grid = FullGrid();
  const RenderedView at_once = Render(field, grid, {});
  const int64_t n_asked_at_once = field.n_asked();
  ThreadPool pool(2);
  const auto model = ModelOf(field, grid, Geometry());
  ViewRender view(*model, Geometry().near, FrontCamera(), {.first_stride = 8});
  for (int stride : {8, 4, 2}) {
    ASSERT_TRUE(view.Advance(&pool, nullptr, {}));
    ASSERT_FALSE(view.finished());
    const RenderedView coarse = view.TakeView();
    for (int y = 0; y < 19; ++y) {
      for (int x = 0; x < 35; ++x) {
        const int from = (y - y % stride) * 35 + x - x % stride;
        ASSERT_EQ(coarse.colors[y * 35 + x], at_once.colors[from]) << x << ", " << y;
        ASSERT_EQ(coarse.opacities[y * 35 + x], at_once.opacities[from]) << x << ", " << y;
        ASSERT_EQ(coarse.depths[y * 35 + x], at_once.depths[from]) << x << ", " << y;
      }
    }
  }
  ASSERT_TRUE(view.Advance(&pool, nullptr, {}));
  EXPECT_TRUE(view.finished());
  EXPECT_EQ(view.TakeView().colors, at_once.colors);
  EXPECT_EQ(field.n_asked(), 2 * n_asked_at_once) << "no pixel is rendered twice";
}

TEST(RendererTest, PixelShowsTheMeanOfFourRaysThroughItsQuarters) {
  const FormulaField field = Ripples();
  const OccupancyGrid grid = FullGrid();
  const auto model = ModelOf(field, grid, Geometry());
  ThreadPool pool(2);
  const auto render = [&](const Camera& camera, const RenderOptions& options) {
    ViewRender view(*model, Geometry().near, camera, options);
    while (!view.finished()) EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
    return view.TakeView();
  };
  const RenderedView view = render(FrontCamera(), {.background = kBlue, .rays_per_pixel = 4});
  std::vector<RenderedView> quarters;
  for (const auto& [x, y] :
       {std::pair{-0.25f, -0.25f}, {0.25f, -0.25f}, {-0.25f, 0.25f}, {0.25f, 0.25f}}) {
    Camera camera = FrontCamera();
    camera.cx -= x;
    camera.cy -= y;
    quarters.push_back(render(camera, {.background = kBlue}));
  }
  const RenderedView center = render(FrontCamera(), {.background = kBlue});
  float most = 0;  // that the mean is away from the ray through the center
  for (size_t i = 0; i < view.colors.size(); ++i) {
    Vec3 color;
    float opacity = 0;
    std::vector<float> depths;
    for (const RenderedView& quarter : quarters) {
      color = color + quarter.colors[i] * 0.25f;
      opacity += 0.25f * quarter.opacities[i];
      if (quarter.depths[i] > 0) depths.push_back(quarter.depths[i]);
    }
    std::ranges::sort(depths);
    ASSERT_LT(Norm(view.colors[i] - color), 2e-4f) << i;
    ASSERT_NEAR(view.opacities[i], opacity, 2e-4f) << i;
    ASSERT_NEAR(view.depths[i], opacity < 0.1f ? 0 : MiddleDepth(depths), 1e-3f) << i;
    most = std::max(most, Norm(view.colors[i] - center.colors[i]));
  }
  EXPECT_GT(most, 2e-3f) << "a ray through the center shows the same";
  const RenderedView refined =
      render(FrontCamera(), {.background = kBlue, .rays_per_pixel = 4, .first_stride = 4});
  EXPECT_EQ(refined.colors, view.colors);
  EXPECT_EQ(refined.depths, view.depths);
}

TEST(RendererTest, ViewOfHalfTheSizeIsTheMeanOfTheWholeView) {
  const FormulaField field = Ripples();
  const OccupancyGrid grid = FullGrid();
  const auto model = ModelOf(field, grid, Geometry());
  ThreadPool pool(2);
  const auto render = [&](const Camera& camera, int rays_per_pixel) {
    ViewRender view(*model, Geometry().near, camera,
                    {.background = kBlue, .rays_per_pixel = rays_per_pixel});
    while (!view.finished()) EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
    return view.TakeView();
  };
  Camera whole = FrontCamera();  // of a size that 4 divides
  whole.width = 36, whole.height = 20;
  whole.cx = 18, whole.cy = 10;
  for (const int side : {2, 4}) {
    const Camera small = Resized(whole, whole.width / side, whole.height / side);
    const int n = RaysOfPixel(1, 1 / whole.fl_x, small);
    ASSERT_EQ(n, side * side);
    const RenderedView full = render(whole, 1), mean = render(small, n);
    for (int y = 0; y < small.height; ++y) {
      for (int x = 0; x < small.width; ++x) {
        Vec3 color;
        for (int i = 0; i < n; ++i) {
          const int of_full = (y * side + i / side) * whole.width + x * side + i % side;
          color = color + full.colors[of_full] * (1.0f / static_cast<float>(n));
        }
        ASSERT_LT(Norm(mean.colors[y * small.width + x] - color), 2e-4f) << x << ' ' << y;
      }
    }
  }
}

TEST(RaysOfPixelTest, FollowThePictureFromHalfItsSizeDown) {
  Camera camera = FrontCamera();
  const float picture = 1 / camera.fl_x;
  const auto at = [&](float size, int of_picture = 1) {
    Camera view = camera;
    view.fl_x *= size;
    return RaysOfPixel(of_picture, picture, view);
  };
  EXPECT_EQ(at(2), 1);
  EXPECT_EQ(at(1), 1);
  EXPECT_EQ(at(0.6f), 1);
  EXPECT_EQ(at(0.51f), 4) << "half, rounded to whole pixels";
  EXPECT_EQ(at(0.25f), 16);
  EXPECT_EQ(at(0.25f, 4), 64);
  EXPECT_EQ(at(1, 4), 4);
  EXPECT_EQ(at(0.001f), 64) << "no more";
  EXPECT_EQ(RaysOfPixel(4, 0, camera), 4) << "the pictures are not known";
  camera.fl_x = 0;
  EXPECT_EQ(RaysOfPixel(1, picture, camera), 1);
}

TEST(RendererTest, DepthOfAPixelIsTheMedianOfItsRaysOnOneSurface) {
  const auto of = [](std::vector<float> depths) { return MiddleDepth(depths); };
  EXPECT_EQ(of({}), 0);
  EXPECT_EQ(of({3}), 3);
  EXPECT_EQ(of({9, 2}), 2);
  EXPECT_EQ(of({9, 2, 4}), 4);
  EXPECT_EQ(of({9, 2, 8, 2.5f}), 2.5f);
  EXPECT_EQ(of({4.03125f, 4, 3.96875f, 4.0625f}), 4.015625f) << "a slanted surface";
}

}  // namespace
}  // namespace nerf
