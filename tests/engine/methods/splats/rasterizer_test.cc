#include "engine/methods/splats/rasterizer.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/splats.h"

namespace nerf {
namespace {

// 37 x 21 pixels: tiles that the picture cuts off.
Camera TestCamera() {
  Camera camera;
  camera.width = 37;
  camera.height = 21;
  camera.fl_x = 30;
  camera.fl_y = 33;
  camera.cx = 17;
  camera.cy = 11.5f;
  const float turn = 0.4f;
  camera.camera_to_world = {{{std::cos(turn), 0, std::sin(turn), 0.3f},
                             {0, 1, 0, -0.2f},
                             {-std::sin(turn), 0, std::cos(turn), 0.1f}}};
  return camera;
}

// Splats in front of the camera, some of them thin, dim or nearly opaque.
SplatCloud TestCloud(size_t n, int degree) {
  SplatCloud cloud;
  cloud.degree = degree;
  cloud.numbers.resize(n * cloud.row_size());
  const Mat34 pose = TestCamera().camera_to_world;
  const std::vector<float> random = RandomFloats(n * 64, -1, 1, 7);
  for (size_t i = 0; i < n; ++i) {
    const float* const r = random.data() + 64 * i;
    float* const row = cloud.row(i);
    const Vec3 position = pose.ApplyToPoint({1.2f * r[0], 0.7f * r[1], -2.5f + 0.8f * r[2]});
    for (int axis = 0; axis < 3; ++axis) {
      row[axis] = position[axis];
      row[SplatCloud::kLogScale + axis] = -2.3f + 0.9f * r[3 + axis];
    }
    for (int k = 0; k < 4; ++k) row[SplatCloud::kRotation + k] = 1.5f * r[6 + k];
    row[SplatCloud::kOpacity] = 1 + 3 * r[10];
    for (int k = 0; k < 3 * cloud.n_harmonics(); ++k)
      row[SplatCloud::kColor + k] = (k < 3 ? 1.0f : 0.3f) * r[11 + k];
    cloud.widths.push_back(0.02f + 0.015f * r[60]);
  }
  return cloud;
}

std::vector<double> Doubles(const SplatCloud& cloud) {
  return {cloud.numbers.begin(), cloud.numbers.end()};
}

// What a loss of random weights by the reference's picture is.
double Loss(const std::vector<reference::SplatPixel>& picture, const std::vector<float>& weights) {
  double loss = 0;
  for (size_t i = 0; i < picture.size(); ++i) {
    for (int channel = 0; channel < 3; ++channel)
      loss += weights[4 * i + channel] * picture[i].color[channel];
    loss += weights[4 * i + 3] * picture[i].transmittance;
  }
  return loss;
}

class SplatRasterizerTest : public testing::TestWithParam<int> {};

TEST_P(SplatRasterizerTest, DrawsWhatTheReferenceDraws) {
  const SplatCloud cloud = TestCloud(60, GetParam());
  const Camera camera = TestCamera();
  const std::vector<reference::SplatPixel> wanted =
      reference::DrawSplats(cloud, Doubles(cloud), camera);
  ThreadPool pool(2);
  SplatRasterizer rasterizer(&pool);
  rasterizer.Begin(cloud, camera);
  std::vector<int> seen(wanted.size());
  std::vector<float> errors(wanted.size());
  rasterizer.Draw([&](const SplatTile& tile, const kernels::SplatTilePixels& drawn) {
    for (int y = 0; y < tile.height; ++y) {
      for (int x = 0; x < tile.width; ++x) {
        const size_t pixel = static_cast<size_t>(tile.top + y) * camera.width + tile.left + x;
        const int i = y * kernels::kSplatTile + x;
        ++seen[pixel];
        errors[pixel] =
            std::abs(drawn.transmittances[i] - static_cast<float>(wanted[pixel].transmittance));
        for (int channel = 0; channel < 3; ++channel) {
          errors[pixel] =
              std::max(errors[pixel], std::abs(drawn.colors[channel][i] -
                                               static_cast<float>(wanted[pixel].color[channel])));
        }
      }
    }
  });
  EXPECT_THAT(seen, testing::Each(1));
  // A splat that is at its least alpha is drawn by one of the two alone.
  size_t n_off = 0;
  for (const float error : errors) n_off += error > 2e-5f;
  EXPECT_LE(n_off, wanted.size() / 200);
  EXPECT_THAT(errors, testing::Each(testing::Lt(0.01f)));
}

TEST_P(SplatRasterizerTest, GradientsAreDifferencesOfTheReference) {
  SplatCloud cloud = TestCloud(24, GetParam());
  const Camera camera = TestCamera();
  const std::vector<float> weights = RandomFloats(size_t{4} * 37 * 21, -1, 1, 9);
  ThreadPool pool(2);
  SplatRasterizer rasterizer(&pool);
  rasterizer.Begin(cloud, camera);
  rasterizer.DrawAndDifferentiate([&](const SplatTile& tile, const kernels::SplatTilePixels&,
                                      kernels::SplatTilePixels* gradients) {
    *gradients = {};
    for (int y = 0; y < tile.height; ++y) {
      for (int x = 0; x < tile.width; ++x) {
        const size_t pixel = static_cast<size_t>(tile.top + y) * camera.width + tile.left + x;
        const int i = y * kernels::kSplatTile + x;
        for (int channel = 0; channel < 3; ++channel)
          gradients->colors[channel][i] = weights[4 * pixel + channel];
        gradients->transmittances[i] = weights[4 * pixel + 3];
      }
    }
  });
  std::vector<float> gradients(cloud.numbers.size());
  rasterizer.ForGradients([&](size_t splat, const float* row_gradient) {
    std::copy_n(row_gradient, cloud.row_size(), gradients.begin() + splat * cloud.row_size());
  });
  std::vector<double> numbers = Doubles(cloud);
  int n_checked = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double wanted = CentralDifference(&numbers[i], 1e-6, [&] {
      return Loss(reference::DrawSplats(cloud, numbers, camera), weights);
    });
    // A pixel that a splat begins or ceases to reach within the step is a jump.
    if (std::abs(wanted) > 300) continue;
    EXPECT_NEAR(gradients[i], wanted, 2e-3 * std::abs(wanted) + 2e-3)
        << "splat " << i / cloud.row_size() << ", number " << i % cloud.row_size();
    n_checked += wanted != 0;
  }
  EXPECT_GT(n_checked, static_cast<int>(cloud.size()) * 11);
}

TEST(SplatRasterizer, BytesDoNotDependOnThreads) {
  const SplatCloud cloud = TestCloud(200, 2);
  const Camera camera = TestCamera();
  std::vector<float> gradients[2];
  for (const int n_threads : {1, 3}) {
    ThreadPool pool(n_threads);
    SplatRasterizer rasterizer(&pool);
    rasterizer.Begin(cloud, camera);
    rasterizer.DrawAndDifferentiate([](const SplatTile&, const kernels::SplatTilePixels& drawn,
                                       kernels::SplatTilePixels* by) { *by = drawn; });
    std::vector<float>& own = gradients[n_threads > 1];
    own.resize(cloud.numbers.size());
    rasterizer.ForGradients([&](size_t splat, const float* row) {
      std::copy_n(row, cloud.row_size(), own.begin() + splat * cloud.row_size());
    });
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

INSTANTIATE_TEST_SUITE_P(Degrees, SplatRasterizerTest, testing::Range(0, 4));

}  // namespace
}  // namespace nerf
