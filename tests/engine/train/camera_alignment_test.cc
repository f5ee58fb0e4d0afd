#include "engine/views/measure/camera_alignment.h"

#include <cmath>
#include <memory>
#include <utility>

#include "engine/views/measure/image_metrics.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// A painted wall at z = 0, rendered exactly.
class WallRender final : public PictureRender {
 public:
  explicit WallRender(const Camera& camera) : camera_(camera) {}
  bool Advance(const std::function<bool()>&, const std::stop_token&) override {
    picture_.rgba = {camera_.width, camera_.height, 4, {}};
    for (int y = 0; y < camera_.height; ++y) {
      for (int x = 0; x < camera_.width; ++x) {
        const Ray ray = CameraRay(camera_, x + 0.5f, y + 0.5f);
        const Vec3 p = ray.origin - ray.direction * (ray.origin.z / ray.direction.z);
        for (const float phase : {0.0f, 1.0f, 2.5f}) {
          const float value = 0.5f + 0.25f * std::sin(4 * p.x + phase) +
                              0.25f * std::cos(5 * p.y - 2 * p.x + phase);
          picture_.rgba.pixels.push_back(static_cast<uint8_t>(std::lround(255 * value)));
        }
        picture_.rgba.pixels.push_back(255);
      }
    }
    return true;
  }
  bool finished() const override { return !picture_.rgba.pixels.empty(); }
  ViewPicture TakePicture() override { return std::move(picture_); }

 private:
  const Camera camera_;
  ViewPicture picture_;
};

class WallRenderer final : public SceneRenderer {
 public:
  std::unique_ptr<PictureRender> Begin(const Camera& camera, const RenderOptions&) override {
    return std::make_unique<WallRender>(camera);
  }
  Aabb OccupiedBox() const override { return {}; }
};

TEST(CameraAlignmentTest, AMovedAndTurnedCameraFindsItsWayBack) {
  WallRenderer renderer;
  Camera truth;
  truth.width = truth.height = 48;
  truth.fl_x = truth.fl_y = 50;
  truth.cx = truth.cy = 24;
  truth.camera_to_world.m[2][3] = 3;
  View view;
  ViewPicture picture;
  ASSERT_TRUE(renderer.Render(truth, {}, {}, &picture));
  view.image = ColorsOf(picture);
  view.camera = truth;
  view.camera.camera_to_world.m[0][3] += 0.05f;
  view.camera.camera_to_world.m[2][3] -= 0.06f;
  const float angle = 0.02f;
  view.camera.camera_to_world.m[0][0] = view.camera.camera_to_world.m[1][1] = std::cos(angle);
  view.camera.camera_to_world.m[1][0] = std::sin(angle);
  view.camera.camera_to_world.m[0][1] = -std::sin(angle);
  const auto psnr_of = [&](const Camera& camera) {
    EXPECT_TRUE(renderer.Render(camera, {}, {}, &picture));
    return Psnr(ColorsOf(picture), view.image);
  };
  ASSERT_LT(psnr_of(view.camera), 30);
  const auto aligned = AlignedCamera(&renderer, view, 3, {}, {});
  ASSERT_THAT(aligned, IsOk());
  EXPECT_GT(psnr_of(*aligned), 45);
}

}  // namespace
}  // namespace nerf
