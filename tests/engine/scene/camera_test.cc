#include "engine/scene/camera.h"

#include <cmath>

#include "gtest/gtest.h"

namespace nerf {
namespace {

Camera MakeCamera() {
  Camera camera;
  camera.width = 200;
  camera.height = 100;
  camera.fl_x = 150;
  camera.fl_y = 140;
  camera.cx = 100;
  camera.cy = 50;
  return camera;
}

// The coefficients of the fox capture: strong enough that one fixed-point step would not do.
Camera MakeDistortedCamera() {
  Camera camera = MakeCamera();
  camera.lens = LensModel::kOpenCv;
  camera.k1 = 0.0578421f;
  camera.k2 = -0.0805099f;
  camera.k3 = 0.01f;
  camera.p1 = -0.000980296f;
  camera.p2 = 0.00015575f;
  return camera;
}

TEST(CameraTest, DistortThenUndistortIsIdentity) {
  const Camera camera = MakeDistortedCamera();
  for (float v = -0.75f; v <= 0.76f; v += 0.15f) {
    for (float u = -0.75f; u <= 0.76f; u += 0.15f) {
      float distorted_u, distorted_v, again_u, again_v;
      Undistort(camera, u, v, &distorted_u, &distorted_v);
      Distort(camera, distorted_u, distorted_v, &again_u, &again_v);
      EXPECT_NEAR(again_u, u, 1e-5f) << u << " " << v;
      EXPECT_NEAR(again_v, v, 1e-5f) << u << " " << v;
    }
  }
}

TEST(CameraTest, DistortMatchesHandWorkedExample) {
  Camera camera = MakeCamera();
  camera.k1 = 0.1f;
  camera.k2 = 0.01f;
  camera.p1 = 0.002f;
  camera.p2 = 0.003f;
  float u, v;
  Distort(camera, 0.5f, 0.2f, &u, &v);
  // r2 = 0.29, radial = 1 + 0.029 + 0.000841.
  EXPECT_NEAR(u, 0.5 * 1.029841 + 2 * 0.002 * 0.1 + 0.003 * (0.29 + 0.5), 1e-6);
  EXPECT_NEAR(v, 0.2 * 1.029841 + 0.002 * (0.29 + 0.08) + 2 * 0.003 * 0.1, 1e-6);
}

TEST(CameraTest, UndistortBeyondTheFoldFallsBackToItsInput) {
  Camera camera = MakeCamera();
  camera.k1 = -1;  // r (1 - r^2) never exceeds 0.385
  float u, v;
  Undistort(camera, 0.9f, 0.0f, &u, &v);
  EXPECT_EQ(u, 0.9f);
  EXPECT_EQ(v, 0.0f);
}

TEST(CameraTest, RayThroughThePrincipalPointLooksAlongMinusZ) {
  const Ray ray = CameraRay(MakeCamera(), 100, 50);
  EXPECT_NEAR(ray.direction.x, 0, 1e-7);
  EXPECT_NEAR(ray.direction.y, 0, 1e-7);
  EXPECT_NEAR(ray.direction.z, -1, 1e-7);
}

TEST(CameraTest, RayThroughAPixelCenterFollowsThePinholeFormula) {
  Camera camera = MakeCamera();
  camera.camera_to_world = {{{0, 0, 1, 7}, {1, 0, 0, 8}, {0, 1, 0, 9}}};
  const Ray ray = CameraRay(camera, 10.5f, 20.5f);
  const Vec3 in_camera = Normalized({(10.5f - 100) / 150, -(20.5f - 50) / 140, -1});
  EXPECT_EQ(ray.origin, (Vec3{7, 8, 9}));
  EXPECT_NEAR(ray.direction.x, in_camera.z, 1e-6);
  EXPECT_NEAR(ray.direction.y, in_camera.x, 1e-6);
  EXPECT_NEAR(ray.direction.z, in_camera.y, 1e-6);
  EXPECT_NEAR(Norm(ray.direction), 1, 1e-6);
}

TEST(CameraTest, RayOfADistortedLensHitsThePointThatProjectsThere) {
  const Camera camera = MakeDistortedCamera();
  const float u = 0.31f, v = -0.22f;
  float distorted_u, distorted_v;
  Distort(camera, u, v, &distorted_u, &distorted_v);
  const Ray ray = CameraRay(camera, distorted_u * 150 + 100, distorted_v * 140 + 50);
  EXPECT_NEAR(ray.direction.x / -ray.direction.z, u, 1e-5);
  EXPECT_NEAR(ray.direction.y / -ray.direction.z, -v, 1e-5);
}

TEST(CameraTest, ResizedKeepsTheRayOfTheSamePlaceInThePicture) {
  const Camera camera = MakeDistortedCamera();
  const Camera small = Resized(camera, 50, 20);
  EXPECT_EQ(small.width, 50);
  EXPECT_EQ(small.height, 20);
  const Ray expected = CameraRay(camera, 40, 75);
  const Ray actual = CameraRay(small, 10, 15);
  EXPECT_NEAR(actual.direction.x, expected.direction.x, 1e-6);
  EXPECT_NEAR(actual.direction.y, expected.direction.y, 1e-6);
}

TEST(CameraTest, RationalDistortionIsUndone) {
  Camera camera = MakeDistortedCamera();
  camera.k4 = 0.21f;
  camera.k5 = -0.07f;
  camera.k6 = 0.013f;
  float u, v;
  Distort(camera, 0.5f, 0.2f, &u, &v);
  // r2 = 0.29.
  const double above = 1 + 0.29 * (0.0578421 + 0.29 * (-0.0805099 + 0.29 * 0.01));
  const double below = 1 + 0.29 * (0.21 + 0.29 * (-0.07 + 0.29 * 0.013));
  EXPECT_NEAR(u, 0.5 * above / below + 2 * -0.000980296 * 0.1 + 0.00015575 * 0.79, 1e-6);
  Undistort(camera, u, v, &u, &v);
  EXPECT_NEAR(u, 0.5f, 1e-6f);
  EXPECT_NEAR(v, 0.2f, 1e-6f);
}

// The Jacobian that Newton's method takes, against central differences.
TEST(CameraTest, JacobianOfTheRationalDistortionAgreesWithDifferences) {
  const LensDistortion lens{0.1f, -0.05f, 0.02f, 0.003f, -0.002f, 0.2f, -0.06f, 0.01f};
  const double u = 0.4, v = -0.3, h = 1e-6;
  const DistortedPoint at = DistortWithJacobian(lens, u, v);
  const DistortedPoint right = DistortWithJacobian(lens, u + h, v);
  const DistortedPoint left = DistortWithJacobian(lens, u - h, v);
  const DistortedPoint below = DistortWithJacobian(lens, u, v + h);
  const DistortedPoint above = DistortWithJacobian(lens, u, v - h);
  EXPECT_NEAR(at.du_du, (right.u - left.u) / (2 * h), 1e-8);
  EXPECT_NEAR(at.dv_du, (right.v - left.v) / (2 * h), 1e-8);
  EXPECT_NEAR(at.du_dv, (below.u - above.u) / (2 * h), 1e-8);
  EXPECT_NEAR(at.dv_dv, (below.v - above.v) / (2 * h), 1e-8);
}

TEST(CameraTest, FisheyeShowsTheAngleAsTheDistanceFromItsCenter) {
  Camera camera = MakeCamera();
  camera.lens = LensModel::kFisheye;
  camera.k1 = 0.05f;
  camera.k2 = -0.01f;
  camera.k3 = 0.002f;
  camera.k4 = -0.0005f;
  // Up to 1.8 radians, beyond a right angle.
  for (const double theta : {0.0, 0.01, 0.7, 1.5, 1.8}) {
    const double t2 = theta * theta;
    const double radius = theta * (1 + t2 * (0.05 + t2 * (-0.01 + t2 * (0.002 + t2 * -0.0005))));
    const double across = 0.6, down = 0.8;
    const Ray ray = CameraRay(camera, static_cast<float>(100 + 150 * radius * across),
                              static_cast<float>(50 + 140 * radius * down));
    EXPECT_NEAR(ray.direction.x, std::sin(theta) * across, 2e-6) << theta;
    EXPECT_NEAR(ray.direction.y, -std::sin(theta) * down, 2e-6) << theta;
    EXPECT_NEAR(ray.direction.z, -std::cos(theta), 2e-6) << theta;
  }
  EXPECT_TRUE(CanUndistort(camera));
  camera.k1 = -0.9f;  // folds before the corners
  EXPECT_FALSE(CanUndistort(camera));
}

// COLMAP's THIN_PRISM_FISHEYE and FOV, forwards in double precision: camera_models.h.
TEST(CameraTest, RaysOfColmapsFurtherLensesProjectBackToTheirPixels) {
  Camera prism = MakeCamera();
  prism.lens = LensModel::kThinPrismFisheye;
  prism.k1 = 0.05f, prism.k2 = -0.01f, prism.k3 = 0.002f, prism.k4 = -0.0005f;
  prism.p1 = 0.003f, prism.p2 = -0.002f, prism.k5 = 0.004f, prism.k6 = -0.006f;
  Camera fov = MakeCamera();
  fov.lens = LensModel::kFieldOfView;
  fov.k1 = 0.92f;
  for (const double x : {0.5, 60.5, 133.5, 199.5}) {
    for (const double y : {0.5, 31.5, 99.5}) {
      Ray ray = CameraRay(prism, static_cast<float>(x), static_cast<float>(y));
      const double across = std::hypot(ray.direction.x, ray.direction.y);
      const double theta = std::atan2(across, -ray.direction.z);
      const double u = theta * ray.direction.x / across, v = -theta * ray.direction.y / across;
      const double r2 = u * u + v * v;
      const double radial = r2 * (0.05 + r2 * (-0.01 + r2 * (0.002 + r2 * -0.0005)));
      const double du = u * radial + 2 * 0.003 * u * v - 0.002 * (r2 + 2 * u * u) + 0.004 * r2;
      const double dv = v * radial - 2 * 0.002 * u * v + 0.003 * (r2 + 2 * v * v) - 0.006 * r2;
      EXPECT_NEAR(150 * (u + du) + 100, x, 1e-4) << x << " " << y;
      EXPECT_NEAR(140 * (v + dv) + 50, y, 1e-4) << x << " " << y;

      ray = CameraRay(fov, static_cast<float>(x), static_cast<float>(y));
      const double pu = ray.direction.x / -ray.direction.z, pv = ray.direction.y / ray.direction.z;
      const double radius = std::hypot(pu, pv);
      const double factor = std::atan(radius * 2 * std::tan(0.92 / 2)) / (radius * 0.92);
      EXPECT_NEAR(150 * pu * factor + 100, x, 1e-4) << x << " " << y;
      EXPECT_NEAR(140 * pv * factor + 50, y, 1e-4) << x << " " << y;
    }
  }
  EXPECT_TRUE(CanUndistort(prism));
  EXPECT_TRUE(CanUndistort(fov));
  prism.k1 = -2;
  EXPECT_FALSE(CanUndistort(prism));
  fov.k1 = 2.2f;  // corners lie beyond a right angle
  EXPECT_FALSE(CanUndistort(fov));
  fov.k1 = 0;
  EXPECT_NEAR(CameraRay(fov, 10.5f, 20.5f).direction.x, Normalized({-89.5f / 150, 0.2107f, -1}).x,
              1e-4f)
      << "a pinhole";
}

TEST(CameraTest, JacobianOfTheThinPrismAgreesWithDifferences) {
  const LensDistortion lens{0.1f, -0.05f, 0.02f, 0.003f, -0.002f, 0.01f, -0.06f, 0.04f};
  const double u = 0.4, v = -0.3, h = 1e-6;
  const DistortedPoint at = ThinPrismWithJacobian(lens, u, v);
  const DistortedPoint right = ThinPrismWithJacobian(lens, u + h, v);
  const DistortedPoint left = ThinPrismWithJacobian(lens, u - h, v);
  const DistortedPoint below = ThinPrismWithJacobian(lens, u, v + h);
  const DistortedPoint above = ThinPrismWithJacobian(lens, u, v - h);
  EXPECT_NEAR(at.du_du, (right.u - left.u) / (2 * h), 1e-8);
  EXPECT_NEAR(at.dv_du, (right.v - left.v) / (2 * h), 1e-8);
  EXPECT_NEAR(at.du_dv, (below.u - above.u) / (2 * h), 1e-8);
  EXPECT_NEAR(at.dv_dv, (below.v - above.v) / (2 * h), 1e-8);
}

TEST(CameraTest, EquirectangularPicturesGoAllAround) {
  constexpr float kPi = 3.14159265f;
  Camera camera;
  camera.lens = LensModel::kEquirectangular;
  camera.width = 400;
  camera.height = 200;
  camera.fl_x = 400 / (2 * kPi);
  camera.fl_y = 200 / kPi;
  camera.cx = 200;
  camera.cy = 100;
  const auto expect = [&](float x, float y, Vec3 direction) {
    const Ray ray = CameraRay(camera, x, y);
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(ray.direction[i], direction[i], 1e-6) << x << " " << y;
  };
  expect(200, 100, {0, 0, -1});
  expect(300, 100, {1, 0, 0});
  expect(100, 100, {-1, 0, 0});
  expect(400, 100, {0, 0, 1});
  expect(200, 0, {0, 1, 0});
  expect(200, 150, {0, -std::sqrt(0.5f), -std::sqrt(0.5f)});
}

}  // namespace
}  // namespace nerf
