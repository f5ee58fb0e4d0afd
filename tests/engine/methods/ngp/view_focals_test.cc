#include "engine/methods/ngp/view_parameters/view_focals.h"

#include <array>
#include <cmath>
#include <vector>

#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

// The camera turned, so that its axes are not the world's.
LensCamera TurnedCamera(LensModel lens) {
  LensCamera camera;
  camera.fl_x = 120;
  camera.fl_y = 100;
  camera.cx = 52;
  camera.cy = 47;
  camera.lens = lens;
  const float c = std::cos(0.7f), s = std::sin(0.7f);
  camera.camera_to_world.m[0][0] = c;
  camera.camera_to_world.m[0][2] = s;
  camera.camera_to_world.m[2][0] = -s;
  camera.camera_to_world.m[2][2] = c;
  if (lens == LensModel::kOpenCv) camera.distortion = {0.2f, -0.05f, 0.01f, 0.01f, -0.02f};
  if (lens == LensModel::kFisheye) camera.distortion = {0.05f, -0.01f};
  if (lens == LensModel::kThinPrismFisheye)
    camera.distortion = {0.05f, -0.01f, 0.002f, 0.01f, -0.02f, 0.001f, 0.004f, -0.003f};
  if (lens == LensModel::kFieldOfView) camera.distortion = {0.9f};
  return camera;
}

// Undistorted image position, in double precision, by a fixed point of OpenCV's formulas.
std::array<double, 2> ReferenceUndistorted(const LensDistortion& d, double x, double y) {
  double u = x, v = y;
  for (int i = 0; i < 500; ++i) {
    const double r2 = u * u + v * v;
    const double radial = 1 + r2 * (d.k1 + r2 * (d.k2 + r2 * d.k3));
    const double shift_u = 2 * d.p1 * u * v + d.p2 * (r2 + 2 * u * u);
    const double shift_v = d.p1 * (r2 + 2 * v * v) + 2 * d.p2 * u * v;
    u = (x - shift_u) / radial;
    v = (y - shift_v) / radial;
  }
  return {u, v};
}

// Unit direction through an image position, in world axes and double precision, with the focal
// lengths multiplied by `scale`.
std::array<double, 3> ReferenceDirection(const LensCamera& camera, double x, double y,
                                         double scale) {
  double u = (x - camera.cx) / (camera.fl_x * scale), v = (y - camera.cy) / (camera.fl_y * scale);
  std::array<double, 3> local = {u, -v, -1};
  if (camera.lens == LensModel::kOpenCv) {
    const auto undistorted = ReferenceUndistorted(camera.distortion, u, v);
    local = {undistorted[0], -undistorted[1], -1};
  }
  if (camera.lens == LensModel::kFisheye) {
    const double radius = std::hypot(u, v);
    double low = 0, high = 1.5;
    for (int i = 0; i < 100; ++i) {
      const double t = 0.5 * (low + high), t2 = t * t;
      (t * (1 + t2 * (camera.distortion.k1 + t2 * camera.distortion.k2)) < radius ? low : high) = t;
    }
    local = {u / radius * std::sin(low), -v / radius * std::sin(low), -std::cos(low)};
  }
  if (camera.lens == LensModel::kThinPrismFisheye) {
    const LensDistortion& d = camera.distortion;
    double a = u, b = v;
    for (int i = 0; i < 500; ++i) {
      const double r2 = a * a + b * b;
      const double radial = 1 + r2 * (d.k1 + r2 * (d.k2 + r2 * (d.k3 + r2 * d.k4)));
      const double shift_u = 2 * d.p1 * a * b + d.p2 * (r2 + 2 * a * a) + d.k5 * r2;
      const double shift_v = 2 * d.p2 * a * b + d.p1 * (r2 + 2 * b * b) + d.k6 * r2;
      a = (u - shift_u) / radial;
      b = (v - shift_v) / radial;
    }
    const double theta = std::hypot(a, b);
    local = {a / theta * std::sin(theta), -b / theta * std::sin(theta), -std::cos(theta)};
  }
  if (camera.lens == LensModel::kFieldOfView) {
    const double omega = camera.distortion.k1, radius = std::hypot(u, v);
    const double factor = std::tan(radius * omega) / (2 * radius * std::tan(omega / 2));
    local = {u * factor, -v * factor, -1};
  }
  const double norm = std::sqrt(local[0] * local[0] + local[1] * local[1] + local[2] * local[2]);
  std::array<double, 3> world = {};
  for (int row = 0; row < 3; ++row) {
    for (int k = 0; k < 3; ++k) world[row] += camera.camera_to_world.m[row][k] * local[k] / norm;
  }
  return world;
}

TEST(FocalSlopeTest, AgreesWithDifferencesOfTheReference) {
  for (const LensModel lens : {LensModel::kPinhole, LensModel::kOpenCv, LensModel::kFisheye,
                               LensModel::kThinPrismFisheye, LensModel::kFieldOfView}) {
    const LensCamera camera = TurnedCamera(lens);
    for (const auto& [x, y] : {std::pair{3.5f, 4.5f}, {97.5f, 20.5f}, {60.5f, 90.5f}}) {
      const Vec3 slope = FocalSlope(camera, LensRay(camera, x, y).direction);
      constexpr double kStep = 1e-5;
      const auto more = ReferenceDirection(camera, x, y, std::exp(kStep));
      const auto less = ReferenceDirection(camera, x, y, std::exp(-kStep));
      for (int axis = 0; axis < 3; ++axis) {
        EXPECT_NEAR(slope[axis], (more[axis] - less[axis]) / (2 * kStep), 2e-5)
            << static_cast<int>(lens) << " " << x << " " << axis;
      }
    }
  }
}

TEST(FocalSlopeTest, IsZeroWhereThereIsNone) {
  const Vec3 zero;
  EXPECT_EQ(FocalSlope(TurnedCamera(LensModel::kEquirectangular), {0, 0, -1}), zero);
  LensCamera straight;
  EXPECT_EQ(FocalSlope(straight, {0, 0, 1}), zero) << "behind a pinhole";
  straight.lens = LensModel::kFisheye;
  EXPECT_EQ(FocalSlope(straight, {0, 0, -1}), zero) << "the axis";
}

// Views of two lenses: the first has views 0 and 2.
std::vector<View> ViewsOfTwoLenses() {
  std::vector<View> views(3);
  for (View& view : views) view.camera = TinyCamera(32);
  views[1].camera.fl_x *= 1.1f;
  views[1].camera.fl_y *= 1.1f;
  return views;
}

TrainConfig FocalConfig() {
  TrainConfig config = TinyConfig();
  config.loss = Loss::kMse;
  config.min_transmittance = 0;
  Ngp(config).half_table = 0;
  Ngp(config).mlp_l2 = 0;
  Ngp(config).finest_resolution = 32;
  Ngp(config).focal_rate = 1;
  return config;
}

// Rays before the cameras. They begin inside of the box, so that their samples' distances do not
// depend on them; one in kPoseRays counts.
RayBatch RaysOfViews() {
  RayBatch batch = TinyBatch(16, 0, /*learning_rate=*/0);
  batch.distortion = 0;
  for (int r = 0; r < batch.n_rays; ++r) {
    Ray& ray = batch.rays[r];
    ray.origin = ray.origin * 0.2f;
    ray.direction = Normalized({0.6f * ray.direction.x, 0.6f * ray.direction.y, -1});
    batch.views.push_back(r % 3);
    batch.weights.push_back(r % kPoseRays == 0 ? 1 : 0);
  }
  return batch;
}

// The state with colors that do not depend on the direction, whose part is left out.
TensorFile DirectionlessState(const RayStep& step) {
  TensorFile state = LivelyState(step);
  Tensor& layer = state.tensors.at("field.color_mlp.0");
  std::vector<float> weights = ToFloats(layer);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i % 32 < 16 ? 0 : weights[i];
  layer = TensorFromFloats(weights.data(), layer.shape, DType::kF32);
  return state;
}

// Of the second lens one ray counts, whose samples stay within their cells of the encoding.
TEST(ViewFocalsTest, GradientAgreesWithCentralDifferencesOfTheLoss) {
  ThreadPool pool(2);
  const TrainConfig config = FocalConfig();
  const std::vector<View> views = ViewsOfTwoLenses();
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, views);
  const TensorFile state = DirectionlessState(*step);
  ASSERT_THAT(step->Load(state), IsOk());
  const RayBatch batch = RaysOfViews();
  step->RunRays(batch);
  const std::vector<float> moments =
      ToFloats(Saved(*step).tensors.at("adam.first.view.log_focal_scales"));
  ASSERT_EQ(moments.size(), 2u);
  EXPECT_NE(moments[0], 0);
  constexpr float kDistance = 1e-3f;
  const auto loss_at = [&](float log_scale) {
    RayBatch moved = batch;
    for (int r = 0; r < batch.n_rays; ++r) {
      if (batch.views[r] != 1) continue;
      const Vec3 d = batch.rays[r].direction;
      const float factor = std::exp(-log_scale) / -d.z;
      moved.rays[r].direction = Normalized({d.x * factor, d.y * factor, -1});
    }
    EXPECT_THAT(step->Load(state), IsOk());
    return step->RunRays(moved).loss;
  };
  const double slope = (loss_at(kDistance) - loss_at(-kDistance)) / (2 * kDistance);
  const float gradient = moments[1] / ((1 - config.beta1) * config.loss_scale);
  EXPECT_GT(std::abs(slope), 1e-4);
  EXPECT_NEAR(gradient, slope, 0.03 * std::abs(slope) + 1e-6);
}

TEST(ViewFocalsTest, RaysToPointsDoNotCount) {
  ThreadPool pool(1);
  const std::vector<View> views = ViewsOfTwoLenses();
  const auto step = NewNgpCpuStep(FocalConfig(), TinyGeometry(), &pool, views);
  ASSERT_THAT(step->Load(DirectionlessState(*step)), IsOk());
  RayBatch batch = RaysOfViews();
  batch.depths.assign(batch.n_rays, 1.0f);
  step->RunRays(batch);
  const TensorFile after = Saved(*step);
  for (const float moment : ToFloats(after.tensors.at("adam.first.view.log_focal_scales")))
    EXPECT_EQ(moment, 0);
}

TEST(ViewFocalsTest, ScalesMoveTheCamerasOfTheirLens) {
  const std::vector<View> views = ViewsOfTwoLenses();
  ViewFocals focals(views);
  TensorFile file;
  focals.Save(&file);
  const std::vector<float> logs = {std::log(0.5f), std::log(2.0f)};
  file.tensors.at("view.log_focal_scales") = TensorFromFloats(logs.data(), {2}, DType::kF32);
  ASSERT_THAT(focals.Load(file), IsOk());
  std::vector<LensCamera> cameras(3);
  focals.Apply(&cameras);
  EXPECT_NEAR(cameras[0].fl_x, 16, 1e-4);
  EXPECT_NEAR(cameras[2].fl_y, 16, 1e-4);
  EXPECT_NEAR(cameras[1].fl_x, 70.4, 1e-3);
  const std::vector<LensScale> found = focals.Scales();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(WithFoundFocal(found, views[1].camera).fl_x, 70.4, 1e-3);
}

TEST(ViewFocalsTest, StatesOfOtherLensesAreRefused) {
  ViewFocals focals(ViewsOfTwoLenses());
  TensorFile file;
  focals.Save(&file);
  for (const char* name : {"view.log_focal_scales", "adam.first.view.log_focal_scales",
                           "adam.second.view.log_focal_scales"}) {
    TensorFile missing = file, wrong = file;
    missing.tensors.erase(name);
    const std::vector<float> three = {0, 0, 0};
    wrong.tensors.at(name) = TensorFromFloats(three.data(), {3}, DType::kF32);
    EXPECT_THAT(focals.Load(missing), StatusIs(absl::StatusCode::kInvalidArgument, name));
    EXPECT_THAT(focals.Load(wrong), StatusIs(absl::StatusCode::kInvalidArgument, name));
  }
}

}  // namespace
}  // namespace nerf
