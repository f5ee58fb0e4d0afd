#include "engine/export/splats/photograph_view.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace nerf {
namespace {

constexpr int kWidth = 40, kHeight = 30;

Camera Pinhole() {
  Camera camera;
  camera.width = kWidth;
  camera.height = kHeight;
  camera.fl_x = camera.fl_y = 35;
  camera.cx = 19;
  camera.cy = 16;
  return camera;
}

// A view of a model that is gray everywhere.
SplatView GrayView(const Camera& camera) {
  return {camera, std::vector<uint8_t>(size_t{4} * camera.width * camera.height, 100)};
}

// A picture whose red and green say where its ray points, with a mean of about 100.
ImageU8 PictureOfDirections(const Camera& camera, int n_channels) {
  ImageU8 image{camera.width, camera.height, n_channels, {}};
  for (int y = 0; y < camera.height; ++y) {
    for (int x = 0; x < camera.width; ++x) {
      const Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
      const Vec3 along = ray.direction * (-1 / ray.direction.z);
      const float values[] = {100 + 80 * along.x, 100 + 80 * along.y, 100, 255};
      for (int channel = 0; channel < n_channels; ++channel)
        image.pixels.push_back(static_cast<uint8_t>(std::lround(values[channel])));
    }
  }
  return image;
}

float LargestDifference(const SplatView& view, const ImageU8& wanted) {
  float most = 0;
  for (int y = 1; y + 1 < wanted.height; ++y) {
    for (int x = 1; x + 1 < wanted.width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        const uint8_t shown = view.rgba[4 * (static_cast<size_t>(y) * wanted.width + x) + channel];
        most = std::max(most, std::abs(static_cast<float>(shown) - wanted.Pixel(x, y)[channel]));
      }
    }
  }
  return most;
}

TEST(PhotographViewTest, PinholeOfTheSameSizeIsShownAsItIs) {
  SplatView view = GrayView(Pinhole());
  const ImageU8 picture = PictureOfDirections(Pinhole(), 3);
  ShowPhotograph(Pinhole(), picture, false, &view);
  EXPECT_LE(LargestDifference(view, picture), 3);  // of brightness
}

TEST(PhotographViewTest, DistortionIsTakenOut) {
  Camera bent = Pinhole();
  bent.lens = LensModel::kOpenCv;
  bent.k1 = 0.15f;
  bent.k2 = -0.05f;
  bent.p1 = 0.01f;
  SplatView view = GrayView(Pinhole());
  ShowPhotograph(bent, PictureOfDirections(bent, 3), false, &view);
  const ImageU8 straight = PictureOfDirections(Pinhole(), 3);
  EXPECT_LE(LargestDifference(view, straight), 4);
  // As it is, it would be wrong.
  view = GrayView(Pinhole());
  ShowPhotograph(Pinhole(), PictureOfDirections(bent, 3), false, &view);
  EXPECT_GT(LargestDifference(view, straight), 5);
}

TEST(PhotographViewTest, BeyondThePhotographTheModelStays) {
  Camera bent = Pinhole();
  bent.lens = LensModel::kOpenCv;
  bent.k1 = 0.5f;  // its corners show less than a pinhole's
  SplatView view = GrayView(Pinhole());
  ShowPhotograph(bent, PictureOfDirections(bent, 3), false, &view);
  for (int channel = 0; channel < 4; ++channel) EXPECT_EQ(view.rgba[channel], 100);
  EXPECT_EQ(view.rgba[4 * (15 * kWidth + 20) + 3], 255);
}

TEST(PhotographViewTest, LargerPhotographsAreReduced) {
  const Camera large = Resized(Pinhole(), 3 * kWidth, 3 * kHeight);
  SplatView view = GrayView(Pinhole());
  ShowPhotograph(large, PictureOfDirections(large, 3), false, &view);
  EXPECT_LE(LargestDifference(view, PictureOfDirections(Pinhole(), 3)), 3);
}

TEST(PhotographViewTest, BrightnessIsThatOfTheModel) {
  SplatView view = GrayView(Pinhole());
  ImageU8 picture = PictureOfDirections(Pinhole(), 3);
  const ImageU8 wanted = picture;
  for (uint8_t& value : picture.pixels) value = static_cast<uint8_t>(value * 2 / 3);
  ShowPhotograph(Pinhole(), picture, false, &view);
  EXPECT_LE(LargestDifference(view, wanted), 4);
}

TEST(PhotographViewTest, AlphaIsOpacityOrAMask) {
  ImageU8 picture = PictureOfDirections(Pinhole(), 4);
  uint8_t* const pixel = &picture.pixels[4 * (10 * kWidth + 10)];
  pixel[0] = pixel[1] = pixel[2] = 200;
  pixel[3] = 51;  // a fifth
  SplatView view = GrayView(Pinhole());
  ShowPhotograph(Pinhole(), picture, false, &view);
  const auto shown = [&](size_t channel) { return view.rgba[4 * (10 * kWidth + 10) + channel]; };
  EXPECT_EQ(shown(3), 51);
  EXPECT_NEAR(shown(0), 40, 2);
  view = GrayView(Pinhole());
  ShowPhotograph(Pinhole(), picture, true, &view);
  EXPECT_EQ(shown(3), 100);
  EXPECT_EQ(shown(0), 100);
}

TEST(PhotographViewTest, LensesWithoutAnImagePlaneAreNotShown) {
  Camera camera = Pinhole();
  EXPECT_TRUE(CanShowPhotograph(camera));
  camera.lens = LensModel::kOpenCv;
  EXPECT_TRUE(CanShowPhotograph(camera));
  camera.lens = LensModel::kFisheye;
  EXPECT_FALSE(CanShowPhotograph(camera));
  camera.lens = LensModel::kEquirectangular;
  EXPECT_FALSE(CanShowPhotograph(camera));
}

}  // namespace
}  // namespace nerf
