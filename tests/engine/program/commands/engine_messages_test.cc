#include "engine/program/serve/engine_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "engine/base/protocol/failed_line.h"
#include "engine/base/protocol/message_splitter.h"
#include "engine/base/protocol/progress.h"
#include "engine/program/serve/serve_gang.h"
#include "nlohmann/json.hpp"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Expects that the worker can read the message.
template <typename Message>
void ExpectFits(const Message& message) {
  const std::string bytes = message.SerializeAsString();
  EXPECT_LE(bytes.size(), kMaxMessageBytes);
  EXPECT_TRUE(Message().ParseFromString(bytes)) << "a text is not UTF-8";
}

// ---- Errors.

TEST(EngineMessagesTest, ErrorsHaveTheirReasonOrThatOfTheirCode) {
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const absl::Status status(static_cast<absl::StatusCode>(i), "m");
    const absl::Status back = ErrorFromRpcStatus(ErrorMessage(status));
    EXPECT_THAT(back, FailsWith(status.code(), protocol::ReasonOf(status)));
    EXPECT_EQ(back.message(), "m");
  }
  EXPECT_THAT(ErrorFromRpcStatus(ErrorMessage(absl::ResourceExhaustedError(""))),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory));
  const absl::Status back = ErrorFromRpcStatus(
      ErrorMessage(WithReason(absl::AbortedError("m"), reason::kGridEmpty, {{"step", "7"}})));
  EXPECT_THAT(back, FailsWith(absl::StatusCode::kAborted, reason::kGridEmpty));
  EXPECT_THAT(GetReason(back)->metadata, ElementsAre(testing::Pair("step", "7")));
}

TEST(EngineMessagesTest, RefusalNamesWhatItAnswers) {
  const internal::EngineMessage message = RefusedMessage("j", "r", absl::NotFoundError("m"));
  EXPECT_EQ(message.job(), "j");
  EXPECT_EQ(message.id(), "r");
  EXPECT_EQ(message.refused().message(), "m");
}

TEST(EngineMessagesTest, FailureHasItsProblemsAndTheRankThatIsLost) {
  const internal::EngineMessage message =
      FailedMessage("j", absl::AbortedError("m"), {{"f", "k", "p"}, {"", "", "q"}});
  EXPECT_EQ(message.job(), "j");
  ASSERT_EQ(message.failed().problems_size(), 2);
  EXPECT_EQ(message.failed().problems(0).file(), "f");
  EXPECT_EQ(message.failed().problems(0).field(), "k");
  EXPECT_EQ(message.failed().problems(0).message(), "p");
  EXPECT_EQ(message.failed().problems(1).message(), "q");
  EXPECT_FALSE(message.failed().has_lost_rank());
  for (const int rank : {0, 3, -1}) {
    const absl::Status lost = WithLostRank(absl::DeadlineExceededError("m"), rank);
    const internal::Failed failed = FailedMessage("j", lost, {}).failed();
    EXPECT_THAT(ErrorFromRpcStatus(failed.error()),
                FailsWith(absl::StatusCode::kUnavailable, protocol::kRankLost));
    EXPECT_EQ(failed.has_lost_rank(), rank >= 0);
    EXPECT_EQ(failed.lost_rank(), rank >= 0 ? static_cast<uint32_t>(rank) : 0);
  }
}

// ---- Limits.

TEST(EngineMessagesTest, LongListsAreCutAndSayHowMuchIsLeftOut) {
  constexpr int kProblems = 100'000;
  const std::string text(10'000, 'x');
  std::vector<Problem> problems(kProblems, {"f", "k", "m"});
  const auto expect_cut = [&](const auto& list, size_t n_problems, int min_kept) {
    const int n_kept = list.size() - 1;
    EXPECT_GT(n_kept, min_kept);
    EXPECT_EQ(list[n_kept].message(),
              "and " + std::to_string(n_problems - n_kept) + " more problems");
    EXPECT_EQ(list[0].message(), problems[0].message);
  };
  for (const bool long_ones : {false, true}) {
    // The first ones fill the list, so that the others need no room here.
    if (long_ones) std::fill_n(problems.begin(), 1000, Problem(text, text, text));
    const internal::EngineMessage failed = FailedMessage("j", absl::AbortedError("m"), problems);
    ExpectFits(failed);
    expect_cut(failed.failed().problems(), kProblems, long_ones ? 1 : 1000);
  }
  SceneDescription description;
  for (int i = 0; i < 1000; ++i) description.problems.Add(std::to_string(i), text, text);
  const internal::EngineMessage checked = CheckedMessage("c", description);
  ExpectFits(checked);
  expect_cut(checked.checked().response().problems(), 1000, 1);
}

TEST(EngineMessagesTest, ProblemThatAloneIsTooLongIsCounted) {
  const std::string huge(2 << 20, 'x');
  const internal::EngineMessage failed =
      FailedMessage("j", absl::AbortedError(huge), {{"f", "k", huge}, {"f", "k", "m"}});
  ExpectFits(failed);
  ASSERT_EQ(failed.failed().problems_size(), 1);
  EXPECT_EQ(failed.failed().problems(0).message(), "and 2 more problems");
}

TEST(EngineMessagesTest, LongTextsAreCut) {
  const std::string huge(2 << 20, 'x');
  ExpectFits(ErrorMessage(absl::InternalError(huge)));
  EXPECT_GE(ErrorMessage(absl::InternalError(huge)).message().size(), 10'000u);
  std::vector<Problem> violations(100'000, {"field", "is missing"});
  ExpectFits(ErrorMessage(InvalidFieldsError(violations)));
  SceneDescription description;
  description.source = huge;  // a part of the summary
  description.split = huge;
  description.warnings.assign(100'000, std::string(1000, 'w'));
  const internal::EngineMessage checked = CheckedMessage("c", description);
  ExpectFits(checked);
  EXPECT_GT(checked.checked().response().warnings_size(), 10);
  TrainingSession session;
  session.scene.warnings = description.warnings;
  ExpectFits(StartedMessage("j", session));
  EXPECT_GT(StartedMessage("j", session).started().warnings_size(), 10);
}

TEST(EngineMessagesTest, ScoresAreCut) {
  std::vector<ImageScore> scores(100'000);
  for (ImageScore& score : scores) score.file = "a";
  EXPECT_EQ(DoneMessage("j", {}, scores).done().test_views_size(), 4096);
  for (ImageScore& score : scores) score.file = std::string(1000, 'x');
  const internal::EngineMessage done = DoneMessage("j", {}, scores);
  ExpectFits(done);
  EXPECT_GT(done.done().test_views_size(), 10);
}

TEST(EngineMessagesTest, BytesThatAreNotUtf8BecomeQuestionMarks) {
  const std::string text = "a\xff\xc3\xa9\xc3";
  const std::string expected = "a?\xc3\xa9?";
  const Problem problem = {text, text, text};
  const internal::EngineMessage failed = FailedMessage("j", absl::AbortedError(text), {problem});
  ExpectFits(failed);
  EXPECT_EQ(failed.failed().error().message(), expected);
  EXPECT_EQ(failed.failed().problems(0).file(), expected);
  EXPECT_EQ(failed.failed().problems(0).field(), expected);
  EXPECT_EQ(failed.failed().problems(0).message(), expected);
  ExpectFits(RefusedMessage("j", "r", WithReason(absl::AbortedError(text), text, {{text, text}})));
  SceneDescription description;
  description.problems.Add(text, text, text);
  description.warnings = {text};
  description.source = description.split = text;
  const internal::EngineMessage checked = CheckedMessage("c", description);
  ExpectFits(checked);
  EXPECT_EQ(checked.checked().response().warnings(0), expected);
  TrainingSession session;
  session.scene.warnings = {text};
  ExpectFits(StartedMessage("j", session));
  const internal::EngineMessage done = DoneMessage("j", {}, {ImageScore{text, 30}});
  ExpectFits(done);
  EXPECT_EQ(done.done().test_views(0).file(), expected);
  // A cut may be within a character.
  ExpectFits(ErrorMessage(absl::InternalError("x" + [] {
    std::string accents;
    for (int i = 0; i < 20'000; ++i) accents += "\xc3\xa9";
    return accents;
  }())));
}

TEST(EngineMessagesTest, NamesOfViewsThatAreNotUtf8CanBeRead) {
  SceneDescription description;
  description.test.emplace_back().file = "a\xff";
  const v1::DescribeSceneResponse views = ViewsOf(description);
  EXPECT_TRUE(v1::DescribeSceneResponse().ParseFromString(views.SerializeAsString()));
  EXPECT_EQ(views.views(0).file(), "a?");
}

// ---- Of a job.

TEST(EngineMessagesTest, EveryFigureReachesAFieldOfItsOwner) {
  TrainProgress progress;
  progress.step = 7;
  double value = 100;
  for (const ProgressFigure& figure : ProgressFigures()) progress.*figure.value = value++;
  const internal::EngineMessage message = ProgressMessage("j", progress);
  EXPECT_EQ(message.job(), "j");
  const v1::Progress& figures = message.progress().progress();
  const v1::WorkerMetrics& device = message.progress().device();
  EXPECT_EQ(figures.step(), 7u);
  const auto value_of = [](const google::protobuf::Message& owner, const std::string& name) {
    using google::protobuf::FieldDescriptor;
    const FieldDescriptor* field = owner.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return std::nan("");
    const auto& reflection = *owner.GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
      return reflection.GetDouble(owner, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64)
      return static_cast<double>(reflection.GetUInt64(owner, field));
    return static_cast<double>(reflection.GetUInt32(owner, field));
  };
  std::set<std::string> others;
  for (const ProgressFigure& figure : ProgressFigures()) {
    const double expected = progress.*figure.value;
    if (figure.owner == ProgressFigure::Owner::kWorker) {
      EXPECT_EQ(value_of(device, figure.name), expected) << figure.name;
    } else if (std::isnan(value_of(figures, figure.name))) {
      others.insert(figure.name);
      ASSERT_EQ(figures.figures().count(figure.name), 1u) << figure.name;
      EXPECT_EQ(figures.figures().at(figure.name), expected) << figure.name;
    } else {
      EXPECT_EQ(value_of(figures, figure.name), expected) << figure.name;
    }
  }
  EXPECT_EQ(figures.figures().size(), others.size()) << "the device's are the worker's";
  EXPECT_TRUE(others.contains("occupied_share"));
}

TEST(EngineMessagesTest, FiguresOfTheDeviceHaveTheirWidth) {
  TrainProgress progress;
  progress.gpu_memory_used_bytes = 139.5e9;
  progress.gpu_memory_size_bytes = 150'754'820'096.0;
  progress.gpu_utilization = 0.5;
  progress.stall_fraction = 0;
  const v1::WorkerMetrics device = ProgressMessage("j", progress).progress().device();
  EXPECT_EQ(device.gpu_memory_used_bytes(), 139'500'000'000u);
  EXPECT_EQ(device.gpu_memory_size_bytes(), 150'754'820'096u);
  EXPECT_EQ(device.gpu_utilization(), 0.5);
  EXPECT_TRUE(device.has_stall_fraction()) << "0 is known";
  EXPECT_FALSE(device.has_gpu_power_watts());
}

TEST(EngineMessagesTest, FiguresThatAreNotKnownAreUnset) {
  for (const double unknown : {kUnknownFigure, std::numeric_limits<double>::infinity()}) {
    TrainProgress progress;
    for (const ProgressFigure& figure : ProgressFigures()) progress.*figure.value = unknown;
    const internal::Progress message = ProgressMessage("j", progress).progress();
    EXPECT_EQ(message.progress().ByteSizeLong(), 0u) << message.ShortDebugString();
    EXPECT_EQ(message.device().ByteSizeLong(), 0u) << message.ShortDebugString();
  }
}

TEST(EngineMessagesTest, StartedHasTheWholeConfigAndTheScene) {
  TrainingSession session;
  session.state.config.seed = 4;
  session.state.config.budget = {BudgetKind::kSteps, 30};
  session.state.step = 9;
  session.scene.train.resize(6);
  session.scene.test.resize(2);
  session.scene.warnings = {"w"};
  const internal::EngineMessage message = StartedMessage("j", session);
  EXPECT_EQ(message.job(), "j");
  const internal::Started& started = message.started();
  EXPECT_EQ(started.config().seed(), 4u);
  EXPECT_EQ(started.config().steps(), 30u);
  EXPECT_TRUE(started.config().settings().contains("learning_rate"));
  EXPECT_EQ(started.flavor(), "blender");
  EXPECT_EQ(started.train_views(), 6u);
  EXPECT_EQ(started.test_views(), 2u);
  EXPECT_THAT(started.warnings(), ElementsAre("w"));
  EXPECT_EQ(started.step(), 9u);
}

TEST(EngineMessagesTest, DoneHasTheTotalsAndTheScores) {
  TrainSummary summary;
  summary.step = 30;
  summary.samples = 3000;
  summary.marched = 4000;
  summary.rays = 500;
  summary.seconds = 2.5;
  summary.samples_per_second = 1200;
  summary.psnr = 31.5;
  const internal::EngineMessage message =
      DoneMessage("j", summary, {ImageScore{"test/r_0.png", 31.25}, ImageScore{"b.png", 20}});
  EXPECT_EQ(message.job(), "j");
  const internal::Done& done = message.done();
  EXPECT_EQ(done.progress().step(), 30u);
  EXPECT_EQ(done.progress().samples(), 3000);
  EXPECT_EQ(done.progress().marched(), 4000);
  EXPECT_EQ(done.progress().rays(), 500);
  EXPECT_EQ(done.progress().seconds(), 2.5);
  EXPECT_EQ(done.progress().samples_per_second(), 1200);
  EXPECT_EQ(done.progress().fraction(), 1);
  EXPECT_EQ(done.psnr(), 31.5);
  ASSERT_EQ(done.test_views_size(), 2);
  EXPECT_EQ(done.test_views(0).file(), "test/r_0.png");
  EXPECT_EQ(done.test_views(0).psnr(), 31.25);
  for (const auto& psnr : {std::optional<double>(), std::optional<double>(NAN)}) {
    summary.psnr = psnr;
    EXPECT_FALSE(DoneMessage("j", summary, {}).done().has_psnr());
  }
}

TEST(EngineMessagesTest, TensorsAreListedWithTypeAndShape) {
  TensorFile file;
  file.tensors["a"] = Tensor{DType::kF16, {3, 4294967295}, {}};
  file.tensors["b"] = Tensor{DType::kF32, {}, {}};
  internal::SavedState state;
  AddTensors(file, &state);
  ASSERT_EQ(state.tensors_size(), 2);
  EXPECT_EQ(state.tensors(0).name(), "a");
  EXPECT_EQ(state.tensors(0).dtype(), "F16");
  EXPECT_THAT(state.tensors(0).shape(), ElementsAre(3, 4294967295));
  EXPECT_EQ(state.tensors(1).shape_size(), 0);
}

// ---- Requests.

TEST(EngineMessagesTest, TrainBecomesATraining) {
  internal::Train train;
  train.set_dataset("/d");
  train.set_out("/o");
  train.set_init("/i");
  train.add_merge("/m0");
  train.add_merge("/m1");
  v1::TrainingConfig& config = *train.mutable_config();
  config.set_method("ngp");
  config.set_seed(4294967295);
  config.set_samples(1e6);
  config.set_background(v1::TrainingConfig::BLACK);
  config.set_test_every(0);
  (*config.mutable_settings())["ema_decay"] = "0.5";
  const absl::StatusOr<TrainRequest> request = ToTrainRequest(train);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->dataset, "/d");
  EXPECT_EQ(request->init, "/i");
  EXPECT_EQ(request->resume, "");
  EXPECT_EQ(request->merge, (std::vector<std::string>{"/m0", "/m1"}));
  EXPECT_EQ(request->config.seed, 4294967295u);
  EXPECT_EQ(request->config.budget, (Budget{BudgetKind::kSamples, 1e6}));
  EXPECT_EQ(request->config.background, Background::kBlack);
  EXPECT_EQ(request->config.test_every, 0);
  EXPECT_EQ(request->config.ema_decay, 0.5f);
  EXPECT_FALSE(request->new_total.has_value());
}

TEST(EngineMessagesTest, CheckpointWinsOverAStartAndItsBudgetOverTheConfigsUnlessExtended) {
  internal::Train train;
  train.set_init("/i");
  train.set_extend(true);
  train.mutable_config()->set_steps(40);
  EXPECT_FALSE(ToTrainRequest(train)->new_total.has_value()) << "there is nothing to extend";
  train.set_resume("/r");
  EXPECT_EQ(ToTrainRequest(train)->resume, "/r");
  EXPECT_EQ(ToTrainRequest(train)->init, "");
  EXPECT_EQ(ToTrainRequest(train)->new_total, (Budget{BudgetKind::kSteps, 40}));
  train.mutable_config()->clear_steps();
  EXPECT_FALSE(ToTrainRequest(train)->new_total.has_value());
  train.mutable_config()->set_steps(40);
  train.set_extend(false);
  EXPECT_FALSE(ToTrainRequest(train)->new_total.has_value());
}

TEST(EngineMessagesTest, EveryWrongFieldOfAConfigIsListed) {
  internal::Train train;
  train.mutable_config()->set_steps(0);
  train.mutable_config()->set_test_every(4'000'000'000);
  (*train.mutable_config()->mutable_settings())["no_such_key"] = "1";
  const absl::Status error = ToTrainRequest(train).status();
  EXPECT_THAT(error, FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid));
  for (const char* field : {"config.steps", "config.test_every", "config.settings[no_such_key]"})
    EXPECT_THAT(std::string(error.message()), HasSubstr(field));
}

TEST(EngineMessagesTest, CameraBecomesACameraFile) {
  v1::Camera camera;
  camera.set_width(400);
  camera.set_height(300);
  camera.set_fl_x(500);
  for (int i = 0; i < 16; ++i) camera.add_transform_matrix(i % 5 == 0);
  camera.set_time(0.5);
  const auto file = nlohmann::json::parse(CameraText(camera));
  ASSERT_EQ(file["frames"].size(), 1u);
  const auto& frame = file["frames"][0];
  EXPECT_EQ(frame["w"], 400);
  EXPECT_EQ(frame["fl_y"], 500);
  EXPECT_EQ(frame["cx"], 200);
  EXPECT_EQ(frame["cy"], 150);
  EXPECT_EQ(frame["camera_model"], "PINHOLE");
  EXPECT_EQ(frame["transform_matrix"][3][3], 1);
  EXPECT_EQ(frame["time"], 0.5);
  // Of any number of elements.
  camera.clear_transform_matrix();
  EXPECT_EQ(nlohmann::json::parse(CameraText(camera))["frames"][0]["transform_matrix"].size(), 4u);
}

// ---- What is in a data set.

TEST(EngineMessagesTest, CheckedHasTheFindings) {
  SceneDescription description;
  EXPECT_TRUE(CheckedMessage("c", description).checked().response().ok());
  description.problems.Add("f", "", "m");
  description.warnings = {"w"};
  const internal::EngineMessage message = CheckedMessage("c", description);
  EXPECT_EQ(message.id(), "c");
  EXPECT_EQ(message.checked().views(), "");
  const v1::ValidateSceneResponse& response = message.checked().response();
  EXPECT_FALSE(response.ok());
  EXPECT_FALSE(response.summary().empty());
  EXPECT_EQ(response.summary().find('\n'), std::string::npos);
  ASSERT_EQ(response.problems_size(), 1);
  EXPECT_EQ(response.problems(0).message(), "m");
  EXPECT_THAT(response.warnings(), ElementsAre("w"));
}

TEST(EngineMessagesTest, ViewsAreListedTestViewsFirst) {
  ViewDescription view;
  view.file = "train/r_0.png";
  view.camera.width = 400;
  view.camera.height = 300;
  view.camera.fl_x = 351.5f;
  view.camera.fl_y = 352.5f;
  view.camera.cx = 200;
  view.camera.cy = 149.25f;
  SceneDescription description;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      view.camera.camera_to_world.m[row][column] = row == column ? 1 : 0;
      description.geometry.frame.own_to_training.m[row][column] = row == column ? 1 : 0;
    }
    view.camera.camera_to_world.m[row][3] = 0.125f * static_cast<float>(row) - 0.5f;
  }
  description.train = {view};
  view.file = "test/r_1.png";
  view.camera.lens = LensModel::kOpenCv;
  view.camera.k1 = 0.25f;
  view.camera.k2 = -0.5f;
  view.camera.k3 = 0.125f;
  view.camera.p1 = 1;
  view.camera.p2 = 2;
  view.camera.time = 0.75f;
  description.test = {view};
  const v1::DescribeSceneResponse views = ViewsOf(description);
  EXPECT_EQ(views.test_views(), 1u);
  EXPECT_EQ(views.training_views(), 1u);
  ASSERT_EQ(views.views_size(), 2);
  const v1::SceneView& test = views.views(0);
  EXPECT_EQ(test.file(), "test/r_1.png");
  EXPECT_EQ(test.split(), v1::SceneView::TEST);
  EXPECT_EQ(test.camera().lens(), v1::LENS_MODEL_OPENCV);
  EXPECT_EQ(test.camera().k1(), 0.25);
  EXPECT_EQ(test.camera().k2(), -0.5);
  EXPECT_EQ(test.camera().k3(), 0.125);
  EXPECT_EQ(test.camera().p1(), 1);
  EXPECT_EQ(test.camera().p2(), 2);
  EXPECT_EQ(test.camera().time(), 0.75);
  const v1::SceneView& train = views.views(1);
  EXPECT_EQ(train.file(), "train/r_0.png");
  EXPECT_EQ(train.split(), v1::SceneView::TRAINING);
  EXPECT_EQ(train.camera().lens(), v1::LENS_MODEL_PINHOLE);
  EXPECT_EQ(train.camera().k1(), 0);
  EXPECT_EQ(train.camera().width(), 400u);
  EXPECT_EQ(train.camera().height(), 300u);
  EXPECT_EQ(train.camera().fl_x(), 351.5);
  EXPECT_EQ(train.camera().fl_y(), 352.5);
  EXPECT_EQ(train.camera().cx(), 200);
  EXPECT_EQ(train.camera().cy(), 149.25);
  EXPECT_THAT(train.camera().transform_matrix(),
              ElementsAre(1, 0, 0, -0.5, 0, 1, 0, -0.375, 0, 0, 1, -0.25, 0, 0, 0, 1));
  EXPECT_EQ(ViewsOf({}).views_size(), 0);
}

}  // namespace
}  // namespace nerf
