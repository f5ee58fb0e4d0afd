// Boxes, alpha, backgrounds and panoramas of views, on scenes given by formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "engine/base/crop_box.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/scene/own_box.h"
#include "engine/scene/panorama.h"
#include "engine/scene/pose.h"
#include "engine/views/render/render_device.h"
#include "tests/testing/borrowed_field.h"

namespace nerf {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr float kFineStep = 0.005f;

class StyledField : public RadianceField {
 public:
  std::function<float(Vec3)> density = [](Vec3) { return 2.0f; };
  std::function<Vec3(Vec3)> color = [](Vec3) { return Vec3{1, 0.5f, 0.25f}; };
  bool has_background = false;

  std::unique_ptr<Workspace> NewWorkspace(int) const override { return std::make_unique<Points>(); }
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override {
    static_cast<Points*>(workspace)->last.assign(positions, positions + n);
    for (int i = 0; i < n; ++i) sigmas[i] = density(positions[i]);
  }
  void Color(int n, const int* samples, const Vec3*, Vec3* colors,
             Workspace* workspace) const override {
    const std::vector<Vec3>& positions = static_cast<Points*>(workspace)->last;
    for (int i = 0; i < n; ++i) colors[i] = color(positions[samples[i]]);
  }
  bool HasBackground() const override { return has_background; }
  void Background(int n, const Vec3*, Vec3* colors, Workspace*) const override {
    for (int i = 0; i < n; ++i) colors[i] = {0, 1, 0};
  }

 private:
  struct Points : Workspace {
    std::vector<Vec3> last;
  };
};

// Looks along -z from (0, 0, 4); its middle ray runs along the axis.
Camera PinholeCamera(int width, int height, float focal) {
  Camera camera;
  camera.width = width;
  camera.height = height;
  camera.fl_x = camera.fl_y = focal;
  camera.cx = 0.5f * static_cast<float>(width);
  camera.cy = 0.5f * static_cast<float>(height);
  return camera;
}
Camera AxisCamera() {
  Camera camera = PinholeCamera(9, 7, 20);
  camera.camera_to_world.m[2][3] = 4;
  return camera;
}
constexpr size_t kAxisPixel = 3 * 9 + 4;

RenderedView ViewOf(const StyledField& field, const Camera& camera, const RenderOptions& options) {
  SceneGeometry geometry;
  geometry.near = 0.05f;
  geometry.step = kFineStep;
  ThreadPool pool(2);
  const OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 32);
  const auto model = ModelOf(field, grid, geometry);
  ViewRender view(*model, geometry.near, camera, options);
  while (!view.finished()) view.Advance(&pool, nullptr, {});
  return view.TakeView();
}

// In a frame that is the data set's own.
CropBox BoxOf(const OwnBox& box) { return ToTrainingFrame(box, SceneFrame()); }

TEST(CropBoxTest, CutsRaysAsTheTurnedSlabsSay) {
  // Turned by 45 degrees about y, so that the axis goes through two edges.
  const float half_turn = kPi / 8;
  const OwnBox turned{{0, 0, 0.2}, {1, 1, 1}, {0, std::sin(half_turn), 0, std::cos(half_turn)}};
  Ray ray{{0, 0, 4}, {0, 0, -1}};
  BoxOf(turned).Cut(&ray);
  const float reach = std::sqrt(0.5f);
  EXPECT_NEAR(ray.t_near, 3.8f - reach, 1e-5);
  EXPECT_NEAR(ray.t_far, 3.8f + reach, 1e-5);
  Ray beside{{0.71f, 0, 4}, {0, 0, -1}};
  BoxOf(turned).Cut(&beside);
  EXPECT_GT(beside.t_near, beside.t_far);
  Ray parallel{{0, 0.6f, 4}, {0, 0, -1}};
  BoxOf(turned).Cut(&parallel);
  EXPECT_GT(parallel.t_near, parallel.t_far) << "above the box";
  Ray inside{{0, 0, 0}, {1, 0, 0}};
  BoxOf({{0, 0, 0}, {2e9, 2e9, 2e9}}).Cut(&inside);
  EXPECT_EQ(inside.t_near, 0);
  EXPECT_NEAR(inside.t_far, 1e9f, 1e3f);
}

TEST(CropBoxTest, BoxesAreOfTheDataSetsFrame) {
  // training = 2 * (own turned a quarter about z) + 3
  SceneFrame frame = ToSceneFrame({.scale = 2});
  frame.own_to_training = {{{0, -2, 0, 3}, {2, 0, 0, 3}, {0, 0, 2, 3}}};
  const CropBox box = ToTrainingFrame({{1, 0, 0}, {2, 4, 6}}, frame);
  EXPECT_EQ(box.center, (Vec3{3, 5, 3}));
  // Its x axis is y of the training frame, where its side is 4.
  EXPECT_NEAR(box.axes[0].y, 1 / 2.0f, 1e-6);
  EXPECT_NEAR(box.axes[1].x, -1 / 4.0f, 1e-6);
  EXPECT_NEAR(box.axes[2].z, 1 / 6.0f, 1e-6);
  const Vec3 corner = ToBox({{1, 0, 0}, {2, 4, 6}}, frame).ApplyToPoint({3, 7, 3});
  EXPECT_NEAR(corner.x, 1, 1e-6);
}

TEST(StyledViewTest, BoxLetsThroughWhatBeersLawSaysOfItsPart) {
  RenderOptions options;
  options.background = {0, 0, 1};
  options.crop = BoxOf({{0, 0, 0}, {1, 1, 0.5}});
  StyledField field;
  field.has_background = true;
  const RenderedView view = ViewOf(field, AxisCamera(), options);
  const float left = std::exp(-2 * 0.5f);
  EXPECT_NEAR(view.opacities[kAxisPixel], 1 - left, 2 * 1.5f * kFineStep);
  EXPECT_NEAR(view.colors[kAxisPixel].z, 0.25f * (1 - left) + left, 0.02f)
      << "the model's own background is cut off";
  EXPECT_EQ(view.opacities[0], 0) << "beside the box";
  EXPECT_EQ(view.colors[0], (Vec3{0, 0, 1}));
}

TEST(StyledViewTest, OwnBackgroundStaysUnlessAnotherIsAskedFor) {
  StyledField field;
  field.has_background = true;
  RenderOptions options;
  options.background = {0, 0, 1};
  const float left = std::exp(-2 * 2.0f);
  EXPECT_NEAR(ViewOf(field, AxisCamera(), options).colors[kAxisPixel].y, 0.5f * (1 - left) + left,
              0.01f);
  options.own_background = false;
  EXPECT_NEAR(ViewOf(field, AxisCamera(), options).colors[kAxisPixel].y, 0.5f * (1 - left), 0.01f);
}

TEST(StyledViewTest, StraightAlphaHasTheColorOfWhatIsThere) {
  StyledField haze;
  haze.density = [](Vec3) { return 0.02f; };
  haze.has_background = true;
  const RenderOptions options{.straight_alpha = true};
  const ViewPicture picture = Quantized(ViewOf(haze, AxisCamera(), options));
  const uint8_t* const pixel = picture.rgba.Pixel(4, 3);
  EXPECT_NEAR(pixel[3], 255 * (1 - std::exp(-0.04f)), 1) << "a 25th of the light";
  EXPECT_EQ(pixel[0], 255);
  EXPECT_NEAR(pixel[1], 127.5, 1);
  EXPECT_NEAR(pixel[2], 63.75, 1);
  haze.density = [](Vec3) { return 0.0f; };
  const ViewPicture nothing = Quantized(ViewOf(haze, AxisCamera(), options));
  EXPECT_EQ(nothing.rgba.Pixel(4, 3)[3], 0);
  EXPECT_EQ(nothing.rgba.Pixel(4, 3)[0], 0);
}

// A room: walls around a box of side 1.5 whose colors change slowly.
StyledField Room() {
  StyledField field;
  field.density = [](Vec3 p) {
    return std::max({std::abs(p.x), std::abs(p.y), std::abs(p.z)}) < 0.75f ? 0.0f : 600.0f;
  };
  field.color = [](Vec3 p) {
    return Vec3{0.5f + 0.2f * p.x, 0.5f + 0.2f * p.y, 0.5f + 0.2f * p.z};
  };
  return field;
}

// Between four pixels of a picture that goes around.
Vec3 BetweenPixels(const RenderedView& view, float x, float y) {
  x -= 0.5f;
  y = std::clamp(y - 0.5f, 0.0f, static_cast<float>(view.height - 1));
  const float left = std::floor(x), top = std::min(std::floor(y), view.height - 2.0f);
  Vec3 sum{};
  for (int i = 0; i < 4; ++i) {
    const int column = (static_cast<int>(left) + i % 2 + view.width) % view.width;
    const int row = static_cast<int>(top) + i / 2;
    const float weight = (i % 2 ? x - left : 1 - x + left) * (i / 2 ? y - top : 1 - y + top);
    sum = sum + view.colors[static_cast<size_t>(row) * view.width + column] * weight;
  }
  return sum;
}

TEST(PanoramaTest, EachOfItsSixFacesIsThePinholesView) {
  const StyledField room = Room();
  constexpr int kWidth = 512, kSide = 24;
  Camera place;
  for (int axis = 0; axis < 3; ++axis) place.camera_to_world.m[axis][3] = 0.1f * axis - 0.15f;
  const Camera around = PanoramaAt(place, kWidth, kWidth / 2, {}, 0);
  const RenderedView panorama = ViewOf(room, around, {});
  const Vec3 backwards[] = {{0, 0, 1}, {0, 0, -1}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}};
  for (const Vec3 backward : backwards) {
    const Vec3 up = backward.y != 0 ? Vec3{0, 0, 1} : Vec3{0, 1, 0}, right = Cross(up, backward);
    Camera face = PinholeCamera(kSide, kSide, kSide / 2);
    face.camera_to_world = place.camera_to_world;
    for (int row = 0; row < 3; ++row) {
      face.camera_to_world.m[row][0] = right[row];
      face.camera_to_world.m[row][1] = up[row];
      face.camera_to_world.m[row][2] = backward[row];
    }
    const RenderedView view = ViewOf(room, face, {});
    float largest = 0;
    for (int i = 0; i < kSide * kSide; ++i) {
      const Vec3 d = CameraRay(face, i % kSide + 0.5f, i / kSide + 0.5f).direction;
      const float u = std::atan2(d.x, -d.z), v = std::asin(-d.y);
      const Vec3 there =
          BetweenPixels(panorama, around.cx + u * around.fl_x, around.cy + v * around.fl_y);
      for (int c = 0; c < 3; ++c)
        largest = std::max(largest, std::abs(there[c] - view.colors[i][c]));
    }
    EXPECT_LE(largest, 1.0f / 255) << backward.x << " " << backward.y << " " << backward.z;
  }
}

// Where along a row an increasing color has a value, in pixels.
float PlaceOf(const RenderedView& view, int row, int begin, int end, float value) {
  for (int x = begin; x + 1 < end; ++x) {
    const float a = view.colors[static_cast<size_t>(row) * view.width + x].x;
    const float b = view.colors[static_cast<size_t>(row) * view.width + x + 1].x;
    if (a <= value && value < b) return x + 0.5f + (value - a) / (b - a);
  }
  return -1;
}

TEST(PanoramaTest, DisparityOfAStereoPairAgreesWithDepth) {
  StyledField room = Room();
  // The angle around the camera, which tells what is seen.
  room.color = [](Vec3 p) { return Vec3{0.5f + 0.4f * std::atan2(p.x, -p.z) / kPi, 0, 0}; };
  constexpr float kEyes = 0.2f;
  constexpr int kEyeWidth = 512, kEyeHeight = 256;
  for (const StereoLayout stereo : {StereoLayout::kTopBottom, StereoLayout::kLeftRight}) {
    const bool is_above = stereo == StereoLayout::kTopBottom;
    const int width = is_above ? kEyeWidth : 2 * kEyeWidth;
    const int height = is_above ? 2 * kEyeHeight : kEyeHeight;
    const Camera around = PanoramaAt(Camera(), width, height, {stereo, kEyes}, kEyes);
    const RenderedView view = ViewOf(room, around, {});
    const int row = kEyeHeight / 2, right_row = is_above ? row + kEyeHeight : row;
    const int right_begin = is_above ? 0 : kEyeWidth;
    int n = 0;
    for (int x = 40; x < kEyeWidth - 40; x += 24, ++n) {
      const size_t pixel = static_cast<size_t>(row) * width + x;
      const float there =
          PlaceOf(view, right_row, right_begin, right_begin + kEyeWidth, view.colors[pixel].x);
      ASSERT_GE(there, 0) << x;
      const float disparity = (x + 0.5f - (there - right_begin)) / around.fl_x;
      // Both rays touch the circle of the eyes and meet behind it.
      const float expected = 2 * std::atan(0.5f * kEyes / view.depths[pixel]);
      EXPECT_NEAR(disparity, expected, 0.02f * expected) << x << (is_above ? " above" : " beside");
    }
    EXPECT_GT(n, 15);
  }
}

TEST(PanoramaTest, LevelledPosesStandUprightAndLookToTheSameSide) {
  Mat34 pose;  // looks along -z, up is y
  const Mat34 turned = LevelledPose(pose, {0, 0.8f, 0.6f});
  EXPECT_NEAR(turned.Column(1).z, 0.6f, 1e-6);
  EXPECT_NEAR(turned.Column(0).x, 1, 1e-6);
  EXPECT_NEAR(Dot(turned.Column(1), turned.Column(2)), 0, 1e-6);
  EXPECT_GT(turned.Column(2).z, 0);
  const Mat34 from_above = LevelledPose(pose, {0, 0, 1});
  EXPECT_NEAR(from_above.Column(2).y, -1, 1e-6) << "its top was in front";
}

}  // namespace
}  // namespace nerf
