#include "engine/protocol/worker_request.h"

#include <gtest/gtest.h>

#include "tests/engine/protocol/wrong_lines.h"
#include "tests/testing/status_matchers.h"

namespace nerf::protocol {
namespace {

using absl::StatusCode;

template <typename Message>
Message RequestRoundTrip(const Message& message) {
  const std::string line = ToLine(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const ReceivedRequest received = ParseWorkerRequest(line);
  EXPECT_THAT(received.request, IsOk()) << line;
  if (!received.request.ok()) return {};
  const auto* found = std::get_if<Message>(&*received.request);
  EXPECT_NE(found, nullptr) << line;
  return found == nullptr ? Message() : *found;
}

TEST(WorkerRequestTest, TrainSurvivesARoundTrip) {
  Train train;
  train.job = "j@2";
  train.dataset = "/d";
  train.out = "/o";
  train.config.method = "ngp";
  train.config.seed = 4294967295;
  train.config.budget = {"samples", 1e6};
  train.config.background = "black";
  train.config.test_every = 0;
  train.config.settings = {{"ema_decay", "0.9"}};
  train.init = "/i";
  train.extend = true;
  train.merge = {"/m0", "/m1"};
  train.checkpoint_interval_seconds = 0.5;
  train.preview_interval_seconds = 3;
  train.request_id = "r-1";
  train.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const Train read = RequestRoundTrip(train);
  EXPECT_EQ(read.job, "j@2");
  EXPECT_EQ(read.dataset, "/d");
  EXPECT_EQ(read.out, "/o");
  EXPECT_EQ(read.config.method, "ngp");
  EXPECT_EQ(read.config.seed, 4294967295u);
  ASSERT_TRUE(read.config.budget.has_value());
  EXPECT_EQ(read.config.budget->kind, "samples");
  EXPECT_EQ(read.config.budget->amount, 1e6);
  EXPECT_EQ(read.config.background, "black");
  EXPECT_EQ(read.config.test_every, 0u);
  EXPECT_EQ(read.config.settings, train.config.settings);
  EXPECT_EQ(read.init, "/i");
  EXPECT_EQ(read.resume, "");
  EXPECT_TRUE(read.extend);
  EXPECT_EQ(read.merge, train.merge);
  EXPECT_EQ(read.checkpoint_interval_seconds, 0.5);
  EXPECT_EQ(read.preview_interval_seconds, 3);
  EXPECT_EQ(read.request_id, train.request_id);
  EXPECT_EQ(read.traceparent, train.traceparent);
}

TEST(WorkerRequestTest, FilesToMergeArePaths) {
  for (const char* merge :
       {R"("x")", "[1]", "[null]", R"([""])", R"(["a\u0000b"])", R"([["a"]])"}) {
    const std::string line = R"({"type":"train","job":"j","dataset":"d","out":"o","merge":)";
    EXPECT_THAT(ParseWorkerRequest(line + merge + "}").request,
                StatusIs(absl::StatusCode::kInvalidArgument))
        << merge;
  }
}

TEST(WorkerRequestTest, UnsetConfigStaysUnset) {
  Train train;
  train.job = train.dataset = train.out = "x";
  const Train read = RequestRoundTrip(train);
  EXPECT_EQ(read.config.method, "");
  EXPECT_FALSE(read.config.seed.has_value());
  EXPECT_FALSE(read.config.budget.has_value());
  EXPECT_FALSE(read.config.test_every.has_value());
  EXPECT_FALSE(read.extend);
  EXPECT_EQ(read.checkpoint_interval_seconds, kMaxIntervalSeconds);
}

TEST(WorkerRequestTest, StopCheckAndCancelSurviveARoundTrip) {
  EXPECT_TRUE(RequestRoundTrip(Stop{"j", true}).checkpoint);
  EXPECT_FALSE(RequestRoundTrip(Stop{"j", false}).checkpoint);
  EXPECT_EQ(RequestRoundTrip(Stop{"j", false}).job, "j");
  EXPECT_EQ(RequestRoundTrip(Check{"c", "/d"}).dataset, "/d");
  EXPECT_EQ(RequestRoundTrip(Check{"c", "/d"}).out, "");
  EXPECT_FALSE(RequestRoundTrip(Check{"c", "/d"}).test_every.has_value());
  EXPECT_EQ(RequestRoundTrip(Check{"c", "/d", "/o", 0}).out, "/o");
  EXPECT_EQ(RequestRoundTrip(Check{"c", "/d", "/o", 0}).test_every, 0u);
  EXPECT_EQ(RequestRoundTrip(Cancel{"c"}).id, "c");
}

TEST(WorkerRequestTest, RenderSurvivesARoundTrip) {
  Render render;
  render.id = "r";
  render.job = "j";
  render.orbit_index = 2;
  render.orbit_count = 5;
  render.path = "spiral";
  render.full_size = true;
  render.width = 4;
  render.height = 3;
  render.channels = {"rgb", "depth"};
  render.jpeg = true;
  render.out = "/o";
  Render read = RequestRoundTrip(render);
  EXPECT_EQ(read.job, "j");
  EXPECT_EQ(read.orbit_index, 2);
  EXPECT_EQ(read.orbit_count, 5);
  EXPECT_EQ(read.path, "spiral");
  EXPECT_TRUE(read.full_size);
  EXPECT_EQ(read.width, 4);
  EXPECT_EQ(read.height, 3);
  EXPECT_EQ(read.channels, render.channels);
  EXPECT_TRUE(read.jpeg);
  EXPECT_FALSE(read.exr);
  EXPECT_EQ(read.jpeg_quality, 90);
  EXPECT_FALSE(read.live);
  EXPECT_FALSE(read.moving);
  render.jpeg = false;
  render.exr = true;
  EXPECT_TRUE(RequestRoundTrip(render).exr);
  render.jpeg = true;
  render.exr = false;
  render.jpeg_quality = 40;
  render.live = render.moving = true;
  read = RequestRoundTrip(render);
  EXPECT_EQ(read.jpeg_quality, 40);
  EXPECT_EQ(read.style, ViewStyle());
  render.style.background = {0.5f, 0, 1};
  render.style.crop = {{1, 2, 3}, {4, 5, 6}, {0, 0.6, 0, 0.8}};
  render.style.panorama = {StereoLayout::kLeftRight, 0.0625};
  EXPECT_EQ(RequestRoundTrip(render).style, render.style);
  EXPECT_TRUE(read.live);
  EXPECT_TRUE(read.moving);
  render.job.clear();
  render.file = "/m";
  render.camera = R"({"frames":[],"w":4})";
  read = RequestRoundTrip(render);
  EXPECT_EQ(read.file, "/m");
  EXPECT_EQ(read.camera, render.camera);
}

TEST(WorkerRequestTest, TextThatIsNotUtf8DoesNotBreakTheLine) {
  EXPECT_EQ(RequestRoundTrip(Check{"r1", "/tmp/\xff\n"}).id, "r1");
}

TEST(WorkerRequestTest, WrongLinesAreRefusedWithTheirKey) {
  const std::string train = R"({"type":"train","job":"j","dataset":"d","out":"o",)";
  const std::string render = R"({"type":"render","id":"r","job":"j","out":"o",)";
  const std::vector<WrongLine> cases = WrongLines({
      {R"({"type":"fly"})", "fly"},
      {R"({"type":"train","dataset":"d","out":"o"})", "job: is missing"},
      {R"({"type":"train","job":"","dataset":"d","out":"o"})", "job"},
      {R"({"type":"train","job":"j","dataset":"a\u0000b","out":"o"})", "dataset"},
      {train + R"("seed":-1})", "seed"},
      {train + R"("seed":1.5})", "seed"},
      {train + R"("seed":1e300})", "seed"},
      {train + R"("budget":"all"})", "budget"},
      {train + R"("budget":{"kind":"steps"}})", "budget.amount"},
      {train + R"("budget":{"kind":7,"amount":1}})", "budget.kind"},
      {train + R"("budget":{"kind":"steps","amount":-1}})", "budget.amount"},
      {train + R"("settings":[1,2]})", "settings"},
      {train + R"("settings":{"step":1}})", "settings.step"},
      {train + R"("init_scope":"half"})", "init_scope"},
      {train + R"("checkpoint_interval_seconds":0})", "checkpoint_interval_seconds"},
      {R"({"type":"stop","job":"j"})", "mode"},
      {R"({"type":"stop","job":"j","mode":"now"})", "mode"},
      {R"({"type":"render","id":"r","orbit":{"count":1},"out":"o"})", "file"},
      {render + R"("width":1})", "camera"},
      {render + R"("camera":{},"orbit":{"count":1}})", "camera"},
      {render + R"("camera":"x"})", "camera"},
      {render + R"("orbit":{"index":3,"count":3}})", "orbit.index"},
      {render + R"("orbit":{"count":0}})", "orbit.count"},
      {render + R"("orbit":{"count":1e12}})", "orbit.count"},
      {render + R"("orbit":{"count":1},"width":-5})", "width"},
      {render + R"("orbit":{"count":1},"channels":"rgb"})", "channels"},
      {render + R"("orbit":{"count":1},"channels":[1]})", "channels"},
      {render + R"("orbit":{"count":1},"format":"gif"})", "format"},
      {R"({"type":"check","id":5,"dataset":"d"})", "id"},
      {R"({"type":"cancel"})", "id"},
  });
  for (const WrongLine& wrong : cases) {
    EXPECT_THAT(ParseWorkerRequest(wrong.line).request,
                StatusIs(StatusCode::kInvalidArgument, wrong.words))
        << wrong.line.substr(0, 200);
  }
}

TEST(WorkerRequestTest, EveryWrongKeyIsListed) {
  const auto received = ParseWorkerRequest(R"({"type":"train","job":3,"dataset":[],"out":{}})");
  for (const char* key : {"job", "dataset", "out"}) {
    EXPECT_THAT(received.request, StatusIs(StatusCode::kInvalidArgument, key));
  }
}

TEST(WorkerRequestTest, WrongRequestKeepsWhatAnAnswerNeeds) {
  const auto received = ParseWorkerRequest(R"({"type":"render","id":"r","job":"j"})");
  EXPECT_FALSE(received.request.ok());
  EXPECT_EQ(received.type, "render");
  EXPECT_EQ(received.id, "r");
  EXPECT_EQ(received.job, "j");
}

}  // namespace
}  // namespace nerf::protocol
