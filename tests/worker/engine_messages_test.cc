#include "worker/engine_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

TEST(EngineMessagesTest, ProgressIsRead) {
  const auto message = ParseEngineMessage(
      R"({"type":"progress","job":"j@1","step":7,"samples":1e9,"marched":2,"rays":3,"loss":null,)"
      R"("psnr_train":20.5,"samples_per_second":1,"rays_per_second":2,"seconds":3,"fraction":1.5,)"
      R"("eta_seconds":-4,"evaluated_views":3,"evaluation_views":25,"gpu_utilization":0.5,)"
      R"("later":{}})");
  ASSERT_THAT(message, IsOk());
  const auto& progress = std::get<EngineProgress>(*message).progress;
  EXPECT_EQ(progress.step(), 7u);
  EXPECT_EQ(progress.samples(), 1e9);
  EXPECT_EQ(progress.loss(), 0);
  EXPECT_EQ(progress.fraction(), 1);
  EXPECT_EQ(progress.eta_seconds(), 0);
  EXPECT_EQ(progress.evaluated_views(), 3u);
  EXPECT_EQ(progress.evaluation_views(), 25u);
  const auto& readings = std::get<EngineProgress>(*message).readings;
  EXPECT_EQ(readings.gpu_utilization(), 0.5);
  EXPECT_FALSE(readings.has_stall_fraction());
  EXPECT_EQ(readings.train_steps(), 0);
}

TEST(EngineMessagesTest, CheckpointCarriesTensors) {
  const auto message = ParseEngineMessage(
      R"({"type":"checkpoint","job":"j","step":1,"checkpoint":"/c","model":"/m","psnr":null,)"
      R"("tensors":[{"name":"a","dtype":"F16","shape":[3,4]}]})");
  ASSERT_THAT(message, IsOk());
  const auto& checkpoint = std::get<EngineCheckpoint>(*message);
  ASSERT_EQ(checkpoint.tensors.size(), 1u);
  EXPECT_EQ(checkpoint.tensors[0].shape(1), 4u);
  EXPECT_FALSE(checkpoint.psnr.has_value());
}

TEST(EngineMessagesTest, UnknownTypeIsUnimplemented) {
  EXPECT_THAT(ParseEngineMessage(R"({"type":"sing"})"),
              StatusIs(absl::StatusCode::kUnimplemented, "sing"));
}

TEST(EngineMessagesTest, EveryBadLineIsRefusedWithItsKey) {
  const struct {
    std::string line, words;
  } kCases[] = {
      {"", "JSON"},
      {"[]", "JSON"},
      {"{\"type\":", "JSON"},
      {"\xff\xfe", "JSON"},
      {std::string(100'000, '['), "JSON"},
      {R"({"job":"j"})", "type"},
      {R"({"type":3})", "type"},
      {R"({"type":"progress","step":1,"samples":1,"seconds":1})", "progress.job"},
      {R"({"type":"progress","job":"j","step":-1,"samples":1,"seconds":1})", "progress.step"},
      {R"({"type":"progress","job":"j","step":1.5,"samples":1,"seconds":1})", "progress.step"},
      {R"({"type":"progress","job":"j","step":4294967296,"samples":1,"seconds":1})", "step"},
      {R"({"type":"progress","job":"j","step":1,"samples":"1","seconds":1})", "samples"},
      {R"({"type":"progress","job":{},"step":1,"samples":1,"seconds":1})", "job"},
      {R"({"type":"started","job":"j","config":[],"scene":{}})", "config"},
      {R"({"type":"started","job":"j","config":{"method":"ngp","seed":1,"test_every":8,)"
       R"("budget":{"kind":"steps","amount":-1},"background":"white"},"scene":{}})",
       "kind"},
      {R"({"type":"started","job":"j","config":{"method":"ngp","seed":1,"test_every":8,)"
       R"("budget":{"kind":"steps","amount":1},"background":"pink"},"scene":{}})",
       "background"},
      {R"({"type":"checkpoint","job":"j","step":1,"checkpoint":"/c","model":"/m","tensors":[1]})",
       "tensors"},
      {R"({"type":"checkpoint","job":"j","step":1,"checkpoint":"/c","model":"/m",)"
       R"("tensors":[{"name":"a","dtype":"F16","shape":[-3]}]})",
       "shape"},
      {R"({"type":"failed","job":"j","code":"INTERNAL","problems":[{"file":1,"message":"m"}]})",
       "file"},
      {R"({"type":"working"})", "id"},
      {R"({"type":"rendered","id":"r","files":{"rgb":1},"width":1,"height":1})", "files"},
      {R"({"type":"checked","id":"r","ok":"yes"})", "ok"},
  };
  for (const auto& bad : kCases) {
    EXPECT_THAT(ParseEngineMessage(bad.line),
                StatusIs(absl::StatusCode::kInvalidArgument, bad.words))
        << bad.line.substr(0, 200);
  }
}

TEST(EngineMessagesTest, UnknownCodeOfAFailureBecomesUnknown) {
  const auto message = ParseEngineMessage(R"({"type":"failed","job":"j","code":"OUCH"})");
  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(std::get<EngineFailed>(*message).code, absl::StatusCode::kUnknown);
}

TEST(EngineMessagesTest, TrainLineHoldsTheConfig) {
  TrainCommand command;
  command.job = "j@2";
  command.dataset = "/d";
  command.out = "/o";
  command.config.set_samples(1e6);
  command.config.set_test_every(0);
  command.config.set_background(v1::TrainingConfig::BLACK);
  (*command.config.mutable_settings())["ema_decay"] = "0.9";
  command.init = "/i";
  const std::string line = TrainLine(command);
  EXPECT_EQ(line.back(), '\n');
  const Json json = Json::parse(line);
  EXPECT_EQ(json["method"], "ngp");
  EXPECT_EQ(json["budget"]["kind"], "samples");
  EXPECT_EQ(json["test_every"], 0);
  EXPECT_EQ(json["background"], "black");
  EXPECT_EQ(json["settings"]["ema_decay"], "0.9");
  EXPECT_EQ(json["init_scope"], "all");
  EXPECT_FALSE(json.contains("resume"));
}

TEST(EngineMessagesTest, RenderLineFillsInTheCameraAndTheOtherSide) {
  RenderCommand command;
  command.id = "r1";
  command.file = "/m";
  v1::Camera* camera = command.view.mutable_camera();
  camera->set_width(400);
  camera->set_height(300);
  camera->set_fl_x(500);
  for (int i = 0; i < 16; ++i) camera->add_transform_matrix(i % 5 == 0);
  command.view.set_width(200);
  command.view.add_channels(v1::DEPTH);
  const Json json = Json::parse(RenderLine(command));
  EXPECT_EQ(json["height"], 150);
  EXPECT_EQ(json["camera"]["fl_y"], 500);
  EXPECT_EQ(json["camera"]["cx"], 200);
  EXPECT_EQ(json["camera"]["frames"][0]["transform_matrix"][3][3], 1);
  EXPECT_EQ(json["channels"], Json::array({"depth"}));
  EXPECT_FALSE(json.contains("orbit"));
}

TEST(EngineMessagesTest, TextThatIsNotUtf8DoesNotBreakALine) {
  const std::string line = CheckLine("r1", "/tmp/\xff\n");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_TRUE(Json::parse(line).is_object());
}

}  // namespace
}  // namespace nerf
