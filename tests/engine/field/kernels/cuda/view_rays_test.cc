#include "engine/field/kernels/view_rays.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/occupancy_grid.h"
#include "tests/testing/cuda_test.h"

namespace nerf::kernels {
namespace {

// Two nested levels with a pattern of full and empty blocks.
OccupancyGrid PatternGrid() {
  OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 2, 32);
  for (size_t i = 0; i < grid.occupied_blocks.size(); ++i)
    if (i * 7 % 5 < 2) grid.occupied_blocks[i] = 0;
  return grid;
}

// A scene given by formulas: walls in haze. Positions in the unit cube.
float SigmaAt(Vec3 p) { return std::sin(9 * p.x) * std::cos(7 * p.y + 5 * p.z) > 0.7f ? 60 : 0.3f; }
Vec3 ColorAt(Vec3 p) { return {p.x, p.y, 0.5f + 0.5f * std::sin(20 * p.z)}; }

constexpr MarchSteps kSteps = {0.05f, 1.0f / 64};
constexpr Vec3 kBoxMin = {-2, -2, -2}, kInverseBoxSize = {0.25f, 0.25f, 0.25f};

cuda::ViewControl Control(int width, int height) {
  cuda::ViewControl control;
  control.width = width;
  control.height = height;
  control.camera = {30, 30, 0.5f * width, 0.5f * height, LensModel::kOpenCv, {.k1 = 0.02f}, {}};
  control.camera.camera_to_world.m[2][3] = 2.5f;
  const uint32_t tiles = ((width + 15) / 16) * ((height + 15) / 16);
  control.n_rays = tiles * kViewTileRays;
  control.near = 0.1f;
  control.min_transmittance = 1e-2f;
  control.background = {0.25f, 0.5f, 1};
  return control;
}

// A pixel as the CPU renders it.
ViewRay Expected(const MarchGrid& grid, const cuda::ViewControl& control, int x, int y) {
  Ray ray = LensRay(control.camera, x + 0.5f, y + 0.5f);
  ray.t_near = control.near;
  ray.t_far = control.far;
  if (control.has_crop) control.crop.Cut(&ray);
  ViewRay view;
  view.march = StartMarch(grid, kSteps, ray, kViewJitter);
  float t_middle, delta;
  while (!view.Ended() && MarchSamples(grid, kSteps, 1, &view.march, &t_middle, &delta) == 1) {
    const Vec3 position = ray.origin + ray.direction * t_middle;
    const Vec3 unit = (position - kBoxMin) * kInverseBoxSize;
    const float weight =
        view.AddSample(AlphaFromDensity(SigmaAt(unit), delta), t_middle, control.min_transmittance);
    if (weight > 0) view.AddColor(ColorAt(unit), weight);
  }
  return view;
}

class CudaViewRaysTest : public CudaTest {
 protected:
  // Renders a whole view with these capacities; the host evaluates samples between kernels.
  void ExpectViewLikeTheHosts(const OccupancyGrid& grid, int width, int height, uint32_t spare_rays,
                              uint32_t sample_capacity, bool has_horizons = false,
                              const std::function<void(cuda::ViewControl*)>& change = {}) {
    cuda::ViewControl host_control = Control(width, height);
    if (change) change(&host_control);
    if (has_horizons) host_control.far = 4;  // within the outer box
    const uint32_t n_rays = host_control.n_rays, ray_capacity = n_rays + spare_rays;
    const DeviceArray<uint64_t> blocks(grid.occupied_blocks);
    const DeviceArray<cuda::ViewControl> control({host_control});
    DeviceArray<cuda::ViewCounts> counts(1);
    DeviceArray<ViewRay> rays(ray_capacity);
    DeviceArray<float> harmonics(16 * size_t{ray_capacity});
    DeviceArray<uint32_t> even(ray_capacity), odd(ray_capacity), ray_of(sample_capacity);
    DeviceArray<cuda::RaySegment> segments(ray_capacity);
    DeviceArray<float> t_middles(sample_capacity), deltas(sample_capacity);
    DeviceArray<Vec3> positions(sample_capacity);
    DeviceArray<uint32_t> rgba(n_rays);
    DeviceArray<float> depths(n_rays);
    cuda::ViewParams<float> view;
    view.grid = {blocks.data(), grid.box.Center(), 1, grid.n_levels, grid.resolution};
    view.steps = kSteps;
    view.box_min = kBoxMin;
    view.inverse_box_size = kInverseBoxSize;
    view.control = control.data();
    view.counts = counts.data();
    view.ray_capacity = ray_capacity;
    view.rays = rays.data();
    view.harmonics = harmonics.data();
    view.alive_even = even.data();
    view.alive_odd = odd.data();
    view.segments = segments.data();
    view.sample_capacity = sample_capacity;
    view.t_middles = t_middles.data();
    view.deltas = deltas.data();
    view.ray_of = ray_of.data();
    view.positions = positions.data();
    view.rgba = rgba.data();
    view.depths = depths.data();
    view.has_horizons = has_horizons;
    view.space.kind = Contraction::kLinf;

    cuda::StartView(view, stream_);
    uint32_t alive = counts.Download(stream_)[0].alive_even, n_samples = 0;
    int wave = 0;
    for (; alive > 0; ++wave) {
      ASSERT_LT(wave, 1000);
      cuda::ViewCounts* const c = counts.data();
      cuda::Fill(wave % 2 == 0 ? &c->samples : &c->alive_even, 0, 8, stream_);
      cuda::MarchView(view, wave, stream_);
      const uint32_t n = counts.Download(stream_)[0].samples;
      ASSERT_LE(n, sample_capacity);
      n_samples += n;
      const std::vector<Vec3> at = positions.Download(stream_);
      std::vector<float> sigmas(sample_capacity);
      std::vector<Vec3> colors(sample_capacity);
      for (uint32_t i = 0; i < n; ++i) {
        sigmas[i] = SigmaAt(at[i]);
        colors[i] = ColorAt(at[i]);
      }
      const DeviceArray<float> device_sigmas(sigmas);
      const DeviceArray<Vec3> device_colors(colors);
      view.sigmas = device_sigmas.data();
      view.colors = device_colors.data();
      cuda::CompositeView(view, wave, stream_);
      const cuda::ViewCounts after = counts.Download(stream_)[0];
      alive = wave % 2 == 0 ? after.alive_odd : after.alive_even;
    }
    EXPECT_GT(wave, 2) << "rays go on from wave to wave";
    uint32_t n_horizons = 0;
    if (has_horizons) {
      cuda::Fill(&counts.data()->samples, 0, sizeof(uint32_t), stream_);
      cuda::ListHorizons(view, stream_);
      n_horizons = counts.Download(stream_)[0].samples;
      const std::vector<Vec3> at = positions.Download(stream_);
      std::vector<Vec3> colors(sample_capacity);
      for (uint32_t i = 0; i < n_horizons; ++i) colors[i] = ColorAt(at[i]);
      const DeviceArray<Vec3> device_colors(colors);
      view.colors = device_colors.data();
      cuda::FinishHorizons(view, stream_);
      cuda::Synchronize(stream_);
    }

    MarchGrid host_grid = view.grid;
    host_grid.blocks = grid.occupied_blocks.data();
    const auto found = rgba.Download(stream_);
    const auto found_depths = depths.Download(stream_);
    const int tiles_x = (width + 15) / 16;
    uint32_t n_opaque = 0, n_with_light = 0;
    for (uint32_t r = 0; r < n_rays; ++r) {
      const int tile = static_cast<int>(r / kViewTileRays), inside = r % kViewTileRays;
      const int x = tile % tiles_x * 16 + inside % 16, y = tile / tiles_x * 16 + inside / 16;
      if (x >= width || y >= height) {
        EXPECT_EQ(found[r], 0u) << "no pixel of the picture";
        continue;
      }
      const ViewRay expected = Expected(host_grid, host_control, x, y);
      const bool shows_horizon = has_horizons && host_control.own_background;
      const Vec3 background = shows_horizon
                                  ? ColorAt(view.space.HorizonUnit(expected.march.direction))
                                  : host_control.background;
      const Vec3 color = expected.ColorOn(background);
      const uint32_t packed = host_control.straight_alpha
                                  ? PackStraightRgba(color, expected.Opacity())
                                  : PackRgba(color, expected.Opacity());
      n_with_light += !expected.Ended();
      uint8_t a[4], b[4];
      std::memcpy(a, &found[r], 4);
      std::memcpy(b, &packed, 4);
      // A device contracts multiplies and adds that the host does not.
      for (int c = 0; c < 4; ++c) ASSERT_NEAR(a[c], b[c], 1) << x << ", " << y;
      ASSERT_NEAR(found_depths[r], expected.ExpectedDepth(), 1e-3) << x << ", " << y;
      n_opaque += expected.Opacity() > 0.99f;
    }
    EXPECT_GT(n_opaque, 0u);
    if (!has_horizons || !host_control.own_background) return;
    EXPECT_EQ(n_horizons, n_with_light);
    EXPECT_GT(n_horizons, 20u);
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaViewRaysTest);

TEST_P(CudaViewRaysTest, ViewsAgreeWithTheHost) {
  ExpectViewLikeTheHosts(PatternGrid(), 35, 19, 0, 4 * 6 * 256);
}

TEST_P(CudaViewRaysTest, SampleCapacityOfOnePerRayIsEnough) {
  ExpectViewLikeTheHosts(PatternGrid(), 17, 16, 0, 2 * 256);
}

TEST_P(CudaViewRaysTest, SpareRoomIsLeftAlone) {
  ExpectViewLikeTheHosts(PatternGrid(), 16, 16, 512, 10000);
}

// Of rays without samples too, but not of tiles beyond the picture.
TEST_P(CudaViewRaysTest, RaysWithLightLeftShowWhatLiesInfinitelyFarAway) {
  ExpectViewLikeTheHosts(PatternGrid(), 35, 19, 0, 4 * 6 * 256, true);
}

// A turned box that the rays enter and leave between the walls, and its picture with alpha.
TEST_P(CudaViewRaysTest, BoxesAndAlphaAreTheHosts) {
  for (const bool has_horizons : {false, true}) {
    ExpectViewLikeTheHosts(PatternGrid(), 35, 19, 0, 4 * 6 * 256, has_horizons,
                           [](cuda::ViewControl* control) {
                             control->own_background = false;
                             control->straight_alpha = true;
                             control->background = {};
                             control->has_crop = true;
                             control->crop.center = {0.1f, 0, 0.3f};
                             control->crop.axes[0] = {1.2f, 0.9f, 0};
                             control->crop.axes[1] = {-0.9f, 1.2f, 0};
                             control->crop.axes[2] = {0, 0, 0.8f};
                           });
  }
}

TEST_P(CudaViewRaysTest, AnotherBackgroundTakesTheHorizonsPlace) {
  ExpectViewLikeTheHosts(PatternGrid(), 35, 19, 0, 4 * 6 * 256, true,
                         [](cuda::ViewControl* control) { control->own_background = false; });
}

TEST_P(CudaViewRaysTest, HarmonicsAreThoseOfTheRaysDirections) {
  const cuda::ViewControl host_control = Control(16, 16);
  const OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32);
  const DeviceArray<uint64_t> blocks(grid.occupied_blocks);
  const DeviceArray<cuda::ViewControl> control({host_control});
  DeviceArray<cuda::ViewCounts> counts(1);
  DeviceArray<ViewRay> rays(256);
  DeviceArray<Half> harmonics(16 * 256);
  DeviceArray<uint32_t> even(256), rgba(256);
  DeviceArray<float> depths(256);
  cuda::ViewParams<Half> view;
  view.grid = {blocks.data(), {}, 1, 1, 32};
  view.steps = kSteps;
  view.control = control.data();
  view.counts = counts.data();
  view.ray_capacity = 256;
  view.rays = rays.data();
  view.harmonics = harmonics.data();
  view.alive_even = even.data();
  view.rgba = rgba.data();
  view.depths = depths.data();
  cuda::StartView(view, stream_);
  const uint32_t n_alive = counts.Download(stream_)[0].alive_even;
  ASSERT_GT(n_alive, 100u);
  const auto list = even.Download(stream_);
  const auto found = Wide(harmonics.Download(stream_));
  for (uint32_t place = 0; place < n_alive; ++place) {
    const uint32_t r = list[place];
    float expected[16];
    SphericalHarmonics4(LensRay(host_control.camera, r % 16 + 0.5f, r / 16 + 0.5f).direction,
                        expected);
    for (int i = 0; i < 16; ++i)
      ASSERT_NEAR(found[16 * r + i], expected[i], 1e-3) << r << ", " << i;
  }
}

}  // namespace
}  // namespace nerf::kernels
