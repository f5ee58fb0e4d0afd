#include "engine/program/bench/synthetic_scene.h"

#include <cmath>
#include <numbers>
#include <string>

#include "engine/views/render/orbit.h"

namespace nerf {
namespace {

constexpr float kBallRadius = 0.6f;
constexpr float kCameraDistance = 3.0f;
constexpr float kCameraHeight = 1.2f;

// Color of the ball, with straight alpha, if the ray meets it; else transparent.
void ShadePixel(const Ray& ray, uint8_t* rgba) {
  const float b = Dot(ray.origin, ray.direction);
  const float discriminant = b * b - Dot(ray.origin, ray.origin) + kBallRadius * kBallRadius;
  if (discriminant < 0) return;
  const Vec3 normal =
      (ray.origin + ray.direction * (-b - std::sqrt(discriminant))) * (1 / kBallRadius);
  const bool stripe = std::fmod(normal.z * 3 + 8, 2.0f) < 1;
  const float light = 0.6f + 0.4f * normal.x;
  rgba[0] = static_cast<uint8_t>((stripe ? 230 : 40) * light);
  rgba[1] = static_cast<uint8_t>((stripe ? 80 : 160) * light);
  rgba[2] = static_cast<uint8_t>(90 * light);
  rgba[3] = 255;
}

View MakeView(const std::string& file, const Camera& camera) {
  View view{file, camera, {camera.width, camera.height, 4, {}}};
  view.image.pixels.assign(static_cast<size_t>(camera.width) * camera.height * 4, 0);
  for (int y = 0; y < camera.height; ++y) {
    for (int x = 0; x < camera.width; ++x) {
      const Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
      ShadePixel(ray, &view.image.pixels[(static_cast<size_t>(y) * camera.width + x) * 4]);
    }
  }
  return view;
}

}  // namespace

Scene SyntheticBallScene(int n_train, int n_test, int image_size) {
  Scene scene;
  scene.has_alpha = true;
  SceneGeometry& geometry = scene.geometry;
  geometry.box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
  geometry.near = 0.1f;
  geometry.step = geometry.box.Diagonal() / 1024;
  geometry.median_distance = kCameraDistance;
  geometry.median_height = kCameraHeight;
  Camera intrinsics;
  intrinsics.width = intrinsics.height = image_size;
  intrinsics.fl_x = intrinsics.fl_y = 1.4f * static_cast<float>(image_size);
  intrinsics.cx = intrinsics.cy = 0.5f * static_cast<float>(image_size);
  const std::vector<Camera> cameras =
      OrbitCameras(geometry, {0, 0, 0}, intrinsics, n_train + n_test);
  for (int i = 0; i < n_train + n_test; ++i) {
    // Test views are spread among the training views.
    const bool test = n_test > 0 && i % ((n_train + n_test) / n_test) == 0 &&
                      static_cast<int>(scene.test.size()) < n_test;
    std::vector<View>& views = test ? scene.test : scene.train;
    views.push_back(MakeView((test ? "test_" : "train_") + std::to_string(views.size()) + ".png",
                             cameras[static_cast<size_t>(i)]));
  }
  return scene;
}

}  // namespace nerf
