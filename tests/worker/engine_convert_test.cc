#include "worker/engine/engine_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

TEST(EngineConvertTest, FiguresReachTheFieldsOfTheirNames) {
  TrainProgress progress;
  progress.step = 7;
  progress.samples = 1e9;
  progress.evaluated_views = 3;
  progress.gpu_utilization = 0.5;
  const v1::Progress proto = ToProto(progress);
  EXPECT_EQ(proto.step(), 7u);
  EXPECT_EQ(proto.samples(), 1e9);
  EXPECT_EQ(proto.loss(), 0) << "not known";
  EXPECT_EQ(proto.evaluated_views(), 3u);
  EXPECT_EQ(proto.figures().size(), 0u) << "the GPU is the worker's";
  const v1::WorkerMetrics metrics = WorkerFigures(progress);
  EXPECT_EQ(metrics.gpu_utilization(), 0.5);
  EXPECT_FALSE(metrics.has_stall_fraction());
}

TEST(EngineConvertTest, FiguresOfTheWorkerHaveAField) {
  const v1::WorkerMetrics metrics;
  for (const ProgressFigure& figure : ProgressFigures()) {
    if (figure.owner != ProgressFigure::Owner::kWorker) continue;
    EXPECT_NE(metrics.GetDescriptor()->FindFieldByName(figure.name), nullptr) << figure.name;
  }
}

TEST(EngineConvertTest, ConfigComesBack) {
  v1::TrainingConfig config;
  config.set_method("ngp");
  config.set_seed(4);
  config.set_samples(1e6);
  config.set_test_every(0);
  config.set_background(v1::TrainingConfig::BLACK);
  (*config.mutable_settings())["ema_decay"] = "0.9";
  const protocol::Config sent = ToProtocol(config);
  EXPECT_EQ(sent.background, "black");
  EXPECT_EQ(sent.budget->kind, "samples");
  EXPECT_EQ(sent.test_every, 0u);
  EXPECT_EQ(ToProto(sent).SerializeAsString(), config.SerializeAsString());
}

TEST(EngineConvertTest, WordsThatTheApiDoesNotKnowAreLeftOut) {
  protocol::Config config;
  config.background = "plaid";
  config.budget = {"epochs", 3};
  const v1::TrainingConfig proto = ToProto(config);
  EXPECT_EQ(proto.background(), v1::TrainingConfig::BACKGROUND_UNSPECIFIED);
  EXPECT_EQ(proto.budget_case(), v1::TrainingConfig::BUDGET_NOT_SET);
}

TEST(EngineConvertTest, CameraBecomesACameraFile) {
  v1::RenderImageRequest view;
  v1::Camera* camera = view.mutable_camera();
  camera->set_width(400);
  camera->set_height(300);
  camera->set_fl_x(500);
  for (int i = 0; i < 16; ++i) camera->add_transform_matrix(i % 5 == 0);
  camera->set_time(0.5);
  view.set_width(200);
  view.add_channels(v1::DEPTH);
  const protocol::Render render = ToProtocol(view);
  EXPECT_EQ(render.width, 200);
  EXPECT_EQ(render.height, 0) << "the engine follows the camera's aspect";
  EXPECT_EQ(render.channels, std::vector<std::string>{"depth"});
  const Json file = Json::parse(render.camera);
  EXPECT_EQ(file["frames"][0]["fl_y"], 500);
  EXPECT_EQ(file["frames"][0]["cx"], 200);
  EXPECT_EQ(file["frames"][0]["transform_matrix"][3][3], 1);
  EXPECT_EQ(file["frames"][0]["time"], 0.5);
}

TEST(EngineConvertTest, StyleIsTheEngines) {
  v1::RenderImageRequest view;
  view.mutable_orbit()->set_count(1);
  view.add_channels(v1::RGBA);
  view.set_format(v1::EXR);
  v1::ViewStyle& style = *view.mutable_style();
  for (const double part : {0.0, 0.5, 1.0}) style.add_background(part);
  for (const double number : {1.0, 2.0, 3.0}) style.mutable_crop()->add_center(number);
  for (const double side : {4.0, 5.0, 6.0}) style.mutable_crop()->add_size(side);
  style.mutable_panorama()->set_stereo(v1::Panorama::LEFT_RIGHT);
  style.mutable_panorama()->set_eye_distance(0.06);
  const protocol::Render render = ToProtocol(view);
  EXPECT_EQ(render.channels, std::vector<std::string>{"rgba"});
  EXPECT_EQ(render.style.background, (Vec3{0, 0.5f, 1}));
  EXPECT_EQ(render.style.crop, (OwnBox{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(render.style.panorama, (Panorama{StereoLayout::kLeftRight, 0.06}));
  EXPECT_TRUE(render.exr);
  EXPECT_FALSE(render.jpeg);
}

TEST(EngineConvertTest, OrbitHasNoCamera) {
  v1::RenderImageRequest view;
  view.mutable_orbit()->set_index(2);
  view.mutable_orbit()->set_count(5);
  view.mutable_orbit()->set_path(v1::PATH_CAMERAS);
  const protocol::Render render = ToProtocol(view);
  EXPECT_EQ(render.camera, "");
  EXPECT_EQ(render.orbit_index, 2);
  EXPECT_EQ(render.orbit_count, 5);
  EXPECT_EQ(render.path, "cameras");
  EXPECT_FALSE(render.full_size);
  EXPECT_EQ(render.channels, std::vector<std::string>{"rgb"});
}

TEST(EngineConvertTest, ErrorOfCodeOkIsStillAnError) {
  EXPECT_THAT(ToStatus(protocol::Error{absl::StatusCode::kOk, "", "m"}),
              StatusIs(absl::StatusCode::kUnknown, "m"));
  EXPECT_THAT(
      ToStatus(protocol::Error{absl::StatusCode::kAborted, std::string(reason::kGridEmpty), "m"}),
      FailsWith(absl::StatusCode::kAborted, reason::kGridEmpty));
}

}  // namespace
}  // namespace nerf
