// Paths through models, sizes of views and what training views saw of them.

#include "engine/program/written_views/view_paths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/config/view_limits.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/program/written_views/view_request.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

TrainState BallState() {
  TrainState state;
  const Scene scene = SyntheticBallScene(12, 0, 60);
  state.geometry = scene.geometry;
  state.reference_camera = scene.train[0].camera;
  state.capture = CaptureViewsOf(scene.train);
  return state;
}

// A model of something opaque. `depth` is how far along a ray it is; 0: the ray misses it.
class SolidRenderer : public SceneRenderer {
 public:
  using Depth = std::function<float(const Ray&)>;
  explicit SolidRenderer(Depth depth) : depth_(std::move(depth)) {}
  std::unique_ptr<PictureRender> Begin(const Camera& camera, const RenderOptions&) override {
    return std::make_unique<Picture>(camera, depth_);
  }
  Aabb OccupiedBox() const override { return {{-1, -1, -1}, {1, 1, 1}}; }

 private:
  class Picture final : public PictureRender {
   public:
    Picture(const Camera& camera, const Depth& depth) : camera_(camera), depth_(depth) {}
    bool Advance(const std::function<bool()>&, const std::stop_token&) override {
      return finished_ = true;
    }
    bool finished() const override { return finished_; }
    ViewPicture TakePicture() override {
      ViewPicture view;
      view.rgba = {camera_.width, camera_.height, 4, {}};
      for (int y = 0; y < camera_.height; ++y) {
        for (int x = 0; x < camera_.width; ++x) {
          view.depths.push_back(depth_(CameraRay(camera_, x + 0.5f, y + 0.5f)));
          view.rgba.pixels.insert(view.rgba.pixels.end(), 4, view.depths.back() > 0 ? 255 : 0);
        }
      }
      return view;
    }

   private:
    const Camera camera_;
    const Depth& depth_;
    bool finished_ = false;
  };
  const Depth depth_;
};

// The plane through the origin across `normal`.
class PlaneRenderer final : public SolidRenderer {
 public:
  explicit PlaneRenderer(Vec3 normal = {0, 0, 1})
      : SolidRenderer([normal](const Ray& ray) {
          return -Dot(ray.origin, normal) / Dot(ray.direction, normal);
        }) {}
};

SolidRenderer::Depth BallAt(Vec3 center, float radius) {
  return [=](const Ray& ray) {
    const Vec3 offset = ray.origin - center;
    const float along = -Dot(offset, ray.direction);
    const float inside = radius * radius - (Dot(offset, offset) - along * along);
    return inside > 0 ? along - std::sqrt(inside) : 0;
  };
}

PathRequest Asked(PathKind kind, int count) { return {kind, count, 0, 0, true}; }

TEST(ViewPathTest, RingOfPhotographsBecomesAnOrbit) {
  const TrainState state = BallState();
  PlaneRenderer renderer;
  const auto path = CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(PathKind::kAuto, 8));
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(path->kind, PathKind::kOrbit);
  for (const Camera& camera : path->cameras) {
    EXPECT_EQ(camera.width, 60);
    EXPECT_NEAR(Norm(camera.camera_to_world.Column(3)), 3, 0.05);
    EXPECT_NEAR(camera.camera_to_world.m[2][3], 1.2, 0.05);
  }
}

// The cameras look at the origin; a ball below it reaches to the edge of their pictures.
TEST(ViewPathTest, OrbitShowsAnObjectThatItWouldCut) {
  LoadedModel model;
  model.state = BallState();
  SolidRenderer* const ball = new SolidRenderer(BallAt({0, 0, -0.75f}, 0.5f));
  model.renderer.reset(ball);
  const auto n_cut = [&](const PathScene& scene) {
    const auto path = CamerasOfPath(model.state, scene, Asked(PathKind::kOrbit, 5));
    int n = 0;
    for (const Camera& camera : path->cameras) {
      ViewPicture view;
      ball->Render(camera, {}, {}, &view);
      for (int x = 0; x < camera.width; ++x) {
        const int rows[] = {0, camera.height - 1};
        for (const int y : rows) n += view.rgba.Pixel(x, y)[3] > 0;
      }
    }
    return n;
  };
  const PathScene& scene = PathSceneOf(model);
  EXPECT_GT(scene.object.size(), 100u);
  for (const Vec3& point : scene.object) EXPECT_NEAR(Norm(point - Vec3{0, 0, -0.75f}), 0.5f, 1e-3);
  EXPECT_GT(n_cut(PathSceneOf(model.state, ball)), 0);
  EXPECT_EQ(n_cut(scene), 0);
  EXPECT_EQ(&PathSceneOf(model), &scene) << "found once";
}

TEST(ViewPathTest, SceneThatReachesTheBordersIsNoObject) {
  LoadedModel model;
  model.state = BallState();
  model.renderer = std::make_unique<PlaneRenderer>();
  EXPECT_TRUE(PathSceneOf(model).object.empty());
}

// Pixels without neighbors are haze.
TEST(ViewPathTest, SpecksAreNoObject) {
  LoadedModel model;
  model.state = BallState();
  int n = 0;
  model.renderer =
      std::make_unique<SolidRenderer>([&n](const Ray&) { return ++n % 1009 == 500 ? 2.0f : 0.0f; });
  EXPECT_TRUE(PathSceneOf(model).object.empty());
  EXPECT_GT(n, 1009);
}

TEST(ViewPathTest, FilesWithoutCamerasHaveAnOrbit) {
  TrainState state = BallState();
  PlaneRenderer renderer;
  state.capture.clear();
  const auto path = CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(PathKind::kAuto, 5));
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(path->kind, PathKind::kOrbit);
  EXPECT_NEAR(Norm(path->cameras[0].camera_to_world.Column(3)), 3, 0.01);
}

TEST(ViewPathTest, FilesWithoutCamerasHaveNoPathAlongThem) {
  TrainState state = BallState();
  PlaneRenderer renderer;
  for (const PathKind kind : {PathKind::kSpiral, PathKind::kFlyby, PathKind::kCameras}) {
    EXPECT_THAT(CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(kind, 5)), IsOk());
  }
  state.capture.clear();
  for (const PathKind kind : {PathKind::kSpiral, PathKind::kFlyby, PathKind::kCameras}) {
    EXPECT_THAT(CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(kind, 5)),
                StatusIs(StatusCode::kInvalidArgument,
                         std::string(PathKindName(kind)) + ": such a path follows"));
  }
  EXPECT_THAT(CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(PathKind::kOrbit, 5)),
              IsOk());
}

TEST(ViewPathTest, CountsOutOfRangeAreRefused) {
  const TrainState state = BallState();
  PlaneRenderer renderer;
  for (const int count : {0, -1, 1 << 30}) {
    EXPECT_THAT(
        CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(PathKind::kCameras, count)),
        StatusIs(StatusCode::kInvalidArgument, "cameras"));
  }
}

TEST(ViewPathTest, ViewsThatNobodyAskedASizeForHaveAMegapixelAtMost) {
  Camera camera;
  camera.width = 4000, camera.height = 3000;
  camera.fl_x = camera.fl_y = 3000, camera.cx = 2000, camera.cy = 1500;
  const auto reduced = CameraOfSize(camera, 0, 0, /*limited=*/true);
  ASSERT_THAT(reduced, IsOk());
  EXPECT_LE(reduced->width * reduced->height, 1 << 20);
  EXPECT_NEAR(reduced->fl_x / reduced->width, 0.75, 1e-3);
  EXPECT_EQ(CameraOfSize(camera, 0, 0, /*limited=*/false)->width, 4000);
  EXPECT_EQ(CameraOfSize(camera, 2000, 0, /*limited=*/true)->height, 1500);
}

TEST(ViewPathTest, GroundBelowCamerasThatLookDownIsAcrossUp) {
  // A grid of cameras that look down a tilted axis, as COLMAP places a drone's flight.
  const Vec3 up = Normalized(Vec3{0.3f, -0.8f, 0.5f});
  const Mat34 down = LookAt(up * 3, {0, 0, 0}, {1, 0, 0});
  TrainState state = BallState();
  state.geometry.flavor = SceneFlavor::kColmap;
  state.capture.resize(9);
  for (int i = 0; i < 9; ++i) {
    Camera& camera = state.capture[static_cast<size_t>(i)].camera;
    camera = state.reference_camera;
    camera.camera_to_world = down;
    const Vec3 offset = down.Column(0) * static_cast<float>(i % 3 - 1) +
                        down.Column(1) * static_cast<float>(i / 3 - 1);
    for (int row = 0; row < 3; ++row) camera.camera_to_world.m[row][3] += offset[row];
  }
  PlaneRenderer ground(up);
  EXPECT_GT(Dot(PathSceneOf(state, &ground).up, up), std::cos(0.02f));
}

TEST(ViewPathTest, PanoramasAreSeenThroughAPinhole) {
  TrainState state = BallState();
  PlaneRenderer renderer;
  for (CaptureView& view : state.capture) {
    view.camera.lens = LensModel::kEquirectangular;
    view.camera.fl_x = view.camera.fl_y = static_cast<float>(view.camera.width) / 6.2832f;
  }
  const auto path = CamerasOfPath(state, PathSceneOf(state, &renderer), Asked(PathKind::kOrbit, 2));
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(path->cameras[0].lens, LensModel::kPinhole);
  EXPECT_EQ(path->cameras[0].fl_x, 30);
  EXPECT_GT(CaptureCamerasOf(state)[0].right, 5);
}

TEST(IsFarFromTest, CamerasOfAnotherFrameAreFar) {
  const TrainState state = BallState();
  const std::vector<CaptureCamera> capture = CaptureCamerasOf(state);
  Camera camera = state.capture[0].camera;
  EXPECT_FALSE(IsFarFrom(camera, capture));
  EXPECT_FALSE(IsFarFrom(camera, {}));
  camera.camera_to_world.m[0][3] += 100;
  EXPECT_TRUE(IsFarFrom(camera, capture));
  // Cameras at one place say nothing of the scene's size.
  EXPECT_FALSE(IsFarFrom(camera, {capture[0]}));
  EXPECT_FALSE(IsFarFrom(camera, {capture[0], capture[0], capture[0]}));
}

TEST(ShareSeenTwiceTest, ViewsBesideThePhotographsAreToldApart) {
  const TrainState state = BallState();
  PlaneRenderer renderer;
  const std::vector<CaptureCamera> capture = CaptureCamerasOf(state);
  const Camera camera = state.capture[0].camera;
  ViewPicture view;
  view.rgba = {camera.width, camera.height, 4, {}};
  view.rgba.pixels.assign(size_t(camera.width) * camera.height * 4, 255);
  view.depths.assign(size_t(camera.width) * camera.height, 3.0f);
  EXPECT_GT(ShareSeenTwice(view, camera, capture), 0.9);
  // Straight up from the middle of the ring.
  Camera up = camera;
  up.camera_to_world = LookAt({0, 0, 1}, {0, 0, 10}, {1, 0, 0});
  view.depths.assign(view.depths.size(), 1000.0f);
  EXPECT_LT(ShareSeenTwice(view, up, capture), 0.2);
  view.depths.assign(view.depths.size(), 0.0f);
  EXPECT_EQ(ShareSeenTwice(view, camera, capture), 1);
}

}  // namespace
}  // namespace nerf
