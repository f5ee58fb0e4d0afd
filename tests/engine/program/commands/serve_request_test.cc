#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "fmt/format.h"
#include "tests/engine/program/commands/serve_loop_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// A frame of a live view, of the job in training or of a file.
WorkerRequest ServedLiveFrame(WorkerRequest request) {
  request.mutable_render()->mutable_live()->set_jpeg_quality(40);
  return request;
}

// The files of a rendered view.
std::map<v1::RenderChannel, std::string> FilesOf(const EngineMessage& message) {
  const internal::Rendered& rendered = message.rendered();
  EXPECT_EQ(rendered.files_size(), rendered.response().images_size());
  std::map<v1::RenderChannel, std::string> files;
  for (int i = 0; i < rendered.files_size(); ++i)
    files[rendered.response().images(i).channel()] = rendered.files(i);
  return files;
}

// The picture of a rendered view, as its file has it.
std::string PictureOf(const EngineMessage& message) {
  EXPECT_THAT(message, Says(EngineMessage::kRendered));
  return ReadFile(FilesOf(message)[v1::RGB], 1 << 20).value_or("none");
}

// Renders and checks, alone and during a training.
class ServeRequestTest : public ServeLoopTest {
 protected:
  // A picture that takes minutes.
  WorkerRequest HugeRender(const std::string& id, const std::string& file,
                           const std::string& job = "") {
    WorkerRequest request = RenderMessage(id, file, job);
    request.mutable_render()->mutable_view()->set_width(3000);
    request.mutable_render()->mutable_view()->set_height(3000);
    return request;
  }

  // A data set that takes minutes to decode: one picture, listed many times.
  std::string HugeDataset() {
    using Json = nlohmann::json;
    const std::string folder = dir_ / "huge";
    std::filesystem::create_directory(folder);
    ImageU8 image{2000, 2000, 3, std::vector<uint8_t>(2000 * 2000 * 3)};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = (i * 2654435761u) >> 24;
    EXPECT_THAT(WritePng(folder + "/0000.png", image), IsOk());
    Json frames = Json::array();
    for (int i = 0; i < 5000; ++i) {
      const std::string file = fmt::format("{:04}.png", i);
      if (i > 0) std::filesystem::create_hard_link(folder + "/0000.png", folder + "/" + file);
      frames.push_back(
          {{"file_path", file},
           {"transform_matrix", {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 4}, {0, 0, 0, 1}}}});
    }
    std::ofstream(folder + "/transforms.json")
        << Json{{"w", 2000}, {"h", 2000}, {"fl_x", 2000}, {"frames", frames}}.dump();
    return folder;
  }

  void BeginTraining(const std::string& job) {
    Send(TrainMessage(job, 1'000'000'000));
    ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  }

  void ExpectWorking(const EngineMessage& message, const std::string& id) {
    EXPECT_THAT(message, Says(EngineMessage::kWorking));
    EXPECT_EQ(message.id(), id);
  }

  // Waits until two progress messages have the same step: a request then runs between two steps.
  void WaitUntilARequestIsAtWork() {
    uint32_t before = UINT32_MAX;
    for (uint32_t step = ReceiveStep(); step != before; step = ReceiveStep()) before = step;
  }

  // Waits until the job has taken another step. Only progress messages may come.
  void ExpectStepsAreTaken() {
    const uint32_t before = ReceiveStep();
    while (!HasFailure() && ReceiveStep() <= before) {
    }
  }
  // The step of the next message, which tells progress.
  uint32_t ReceiveStep() {
    const EngineMessage message = Receive();
    EXPECT_THAT(message, Says(EngineMessage::kProgress));
    return message.progress().progress().step();
  }

  // Cancels a running request.
  void CancelAtWork(const std::string& id) {
    Send(CancelMessage(id));
    const EngineMessage answer = ReceiveEnd();
    EXPECT_THAT(answer, Says(EngineMessage::kRefused));
    EXPECT_EQ(answer.id(), id);
    EXPECT_THAT(ErrorOf(answer), StatusIs(absl::StatusCode::kCancelled, "was stopped"))
        << "it had not begun";
  }
};

TEST_F(ServeRequestTest, RendersTheJobInTrainingBetweenItsSteps) {
  BeginTraining("j");
  Send(RenderMessage("r1", "", "j"));
  const EngineMessage rendered = ReceiveAnswer();
  ASSERT_THAT(rendered, Says(EngineMessage::kRendered));
  EXPECT_EQ(rendered.id(), "r1");
  const v1::RenderImageResponse& response = rendered.rendered().response();
  EXPECT_EQ(response.width(), 16u);
  EXPECT_EQ(response.height(), 12u);
  EXPECT_GT(response.far(), 0);
  EXPECT_GT(response.seconds(), 0);
  EXPECT_EQ(response.path(), v1::PATH_ORBIT);
  EXPECT_EQ(response.full_width(), 0u) << "it was not reduced";
  const auto files = FilesOf(rendered);
  EXPECT_EQ(files.size(), 3u);
  for (const auto& [channel, path] : files) {
    const auto image = DecodeImage(path);
    ASSERT_THAT(image, IsOk()) << channel;
    EXPECT_EQ(image->width, 16);
  }
  Send(RenderMessage("r2", "", "other"));
  EXPECT_THAT(ErrorOf(ReceiveAnswer()),
              FailsWith(absl::StatusCode::kFailedPrecondition, reason::kStateConflict))
      << "as a job's that has ended";
}

TEST_F(ServeRequestTest, LargeRenderLetsTheTrainingGoOnAndCanBeCancelled) {
  BeginTraining("j");
  Send(HugeRender("r1", "", "j"));
  for (int i = 0; i < 3; ++i) ExpectStepsAreTaken();
  CancelAtWork("r1");
  ExpectStepsAreTaken();
}

TEST_F(ServeRequestTest, RenderBehindALargeOneIsAnsweredWhenItIsCancelled) {
  BeginTraining("j");
  Send(HugeRender("r1", "", "j"));
  Send(HugeRender("r2", "", "j"));
  ExpectStepsAreTaken();
  Send(CancelMessage("r2"));
  const EngineMessage answer = ReceiveAnswer();
  EXPECT_EQ(answer.id(), "r2");
  EXPECT_THAT(ErrorOf(answer), StatusIs(absl::StatusCode::kCancelled));
  CancelAtWork("r1");
}

TEST_F(ServeRequestTest, SecondRenderOfAnIdIsRefusedAndTheFirstGoesOn) {
  const std::string model = TrainToTheEnd("j", 5).model();
  Send(HugeRender("r1", model));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kWorking));
  const WorkerRequest second = RenderMessage("r1", model);
  Send(second);
  // Answered in its turn: behind the render at work.
  CancelAtWork("r1");
  EXPECT_THAT(ErrorOf(ReceiveEnd()), StatusIs(absl::StatusCode::kAlreadyExists));
  Send(second);
  EXPECT_THAT(ReceiveEnd(), Says(EngineMessage::kRendered)) << "the id is free again";
}

// One that a live frame has interrupted keeps the memory of its picture.
TEST_F(ServeRequestTest, CancelOfASuspendedRenderIsAnsweredAtOnce) {
  const std::string model = TrainToTheEnd("j", 5).model();
  Send(HugeRender("r1", model));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kWorking));
  Send(ServedLiveFrame(HugeRender("live", model)));
  EngineMessage working = ReceiveAnswer();
  while (!HasFailure() && working.id() != "live") working = ReceiveAnswer();
  CancelAtWork("r1");
  CancelAtWork("live");
  ExpectAlive();
}

TEST_F(ServeRequestTest, StopDoesNotWaitForTheRenderAtWorkWhichGoesOn) {
  BeginTraining("j");
  Send(HugeRender("r1", "", "j"));
  ExpectStepsAreTaken();
  Send(StopMessage("j", true));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kCheckpoint));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStopped));
  ExpectWorking(Receive(), "r1");
  CancelAtWork("r1");
  ExpectAlive();
}

TEST_F(ServeRequestTest, JobDoesNotWaitForTheRenderAtWork) {
  Send(HugeRender("r1", TrainToTheEnd("j", 5).model()));
  EXPECT_THAT(Receive(), Says(EngineMessage::kWorking));
  Send(TrainMessage("k", 1'000'000'000));
  EngineMessage started = Receive();
  while (started.has_working()) started = Receive();
  EXPECT_THAT(started, Says(EngineMessage::kStarted));
  ExpectStepsAreTaken();
  CancelAtWork("r1");
}

// The render takes longer than the second that it may take at once.
TEST_F(ServeRequestTest, RenderThatATrainingInterruptsHasTheSameBytes) {
  WorkerRequest request = RenderMessage("r1", TrainToTheEnd("j", 20).model());
  request.mutable_render()->mutable_view()->set_width(400);
  request.mutable_render()->mutable_view()->set_height(300);
  Send(request);
  const std::string idle = PictureOf(ReceiveEnd());
  BeginTraining("k");
  request.set_id("r2");
  Send(request);
  EXPECT_TRUE(PictureOf(ReceiveEnd()) == idle);
}

TEST_F(ServeRequestTest, CheckAtWorkSaysThatTheJobLivesAndCanBeCancelled) {
  BeginTraining("j");
  Send(CheckMessage("c1", HugeDataset()));
  WaitUntilARequestIsAtWork();
  CancelAtWork("c1");
  ExpectStepsAreTaken();
}

TEST_F(ServeRequestTest, StopDoesNotWaitForTheCheckAtWorkWhichIsBegunAgain) {
  BeginTraining("j");
  Send(CheckMessage("c1", HugeDataset()));
  WaitUntilARequestIsAtWork();
  Send(StopMessage("j", true));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kCheckpoint));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStopped));
  ExpectWorking(ReceiveAnswer(), "c1");
  CancelAtWork("c1");
}

TEST_F(ServeRequestTest, StopOfAJobThatReadsItsDatasetIsHeard) {
  WorkerRequest train = TrainMessage("j", 1'000'000'000);
  train.mutable_train()->set_dataset(HugeDataset());
  Send(train);
  Send(StopMessage("j", true));
  const EngineMessage stopped = Receive();
  ASSERT_THAT(stopped, Says(EngineMessage::kStopped));
  EXPECT_EQ(stopped.job(), "j");
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "j"));
  ExpectAlive();
}

TEST_F(ServeRequestTest, LiveFrameIsAnsweredBeforeTheRenderAtWorkWhichThenGoesOn) {
  const std::string model = TrainToTheEnd("j", 5).model();
  Send(HugeRender("r1", model));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kWorking));
  for (const char* id : {"live1", "live2"}) {
    Send(ServedLiveFrame(RenderMessage(id, model)));
    const EngineMessage rendered = ReceiveEnd();
    ASSERT_THAT(rendered, Says(EngineMessage::kRendered));
    EXPECT_EQ(rendered.id(), id);
    const auto files = FilesOf(rendered);
    EXPECT_EQ(files.size(), 3u);
    for (const auto& [channel, path] : files) {
      const std::string bytes = ReadFile(path, 1 << 20).value_or("none");
      const auto header = ParseImageHeader(bytes);
      ASSERT_THAT(header, IsOk()) << channel;
      EXPECT_EQ(header->format, ImageFormat::kJpeg) << channel;
      EXPECT_EQ(header->width, 16) << channel;
    }
  }
  ExpectWorking(ReceiveAnswer(), "r1");
  CancelAtWork("r1");
  ExpectAlive();
}

TEST_F(ServeRequestTest, RenderThatLiveFramesInterruptHasTheSameBytes) {
  const std::string model = TrainToTheEnd("j", 20).model();
  WorkerRequest request = RenderMessage("r1", model);
  request.mutable_render()->mutable_view()->set_width(120);
  request.mutable_render()->mutable_view()->set_height(90);
  Send(request);
  const std::string alone = PictureOf(ReceiveEnd());
  request.set_id("r2");
  Send(request);
  std::string interrupted;
  // Until the render is done, live frames come one after another.
  for (int i = 0; i < 3 || interrupted.empty(); ++i) {
    const std::string id = "live" + std::to_string(i);
    Send(ServedLiveFrame(RenderMessage(id, model)));
    for (EngineMessage answer = ReceiveEnd(); answer.id() != id; answer = ReceiveEnd()) {
      ASSERT_EQ(answer.id(), "r2") << answer.ShortDebugString();
      interrupted = PictureOf(answer);
    }
  }
  EXPECT_TRUE(interrupted == alone);
}

TEST_F(ServeRequestTest, PixelsShowFourRaysOfAModelThatHasThemUnlessTheCameraMoves) {
  const auto trained = [&](const std::string& job, const char* rays_per_pixel) {
    WorkerRequest train = TrainMessage(job, 20);
    (*train.mutable_train()->mutable_config()->mutable_settings())["rays_per_pixel"] =
        rays_per_pixel;
    Send(train);
    EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
    const EngineMessage saved = ReceiveAnswer();
    EXPECT_THAT(saved, Says(EngineMessage::kCheckpoint));
    EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));
    return saved.checkpoint().model();
  };
  const auto picture = [&](const std::string& model, bool moving) {
    WorkerRequest live = ServedLiveFrame(RenderMessage("r", model));
    live.mutable_render()->mutable_live()->set_moving(moving);
    Send(live);
    return PictureOf(ReceiveAnswer());
  };
  const std::string four = trained("four", "4"), one = trained("one", "1");
  EXPECT_FALSE(picture(four, false) == picture(four, true));
  EXPECT_TRUE(picture(one, false) == picture(one, true));
}

TEST_F(ServeRequestTest, LiveFramesOfAJobShareWeightsForASecondAndLaterOnesAreNewer) {
  BeginTraining("j");
  const WorkerRequest live = ServedLiveFrame(RenderMessage("live", "", "j"));
  const auto step_of_frame = [&] {
    Send(live);
    const EngineMessage rendered = ReceiveAnswer();
    EXPECT_THAT(rendered, Says(EngineMessage::kRendered));
    return rendered.rendered().response().step();
  };
  const SteadyTime begin = RealClock().Now();
  const uint32_t first = step_of_frame();
  std::set<uint32_t> steps = {first};
  uint32_t last = first;
  while (!HasFailure() && last == first) steps.insert(last = step_of_frame());
  EXPECT_GT(last, first);
  // At most one copy of the weights a second.
  const double seconds = absl::ToDoubleSeconds(RealClock().Now() - begin);
  EXPECT_LE(static_cast<double>(steps.size()), 2 + seconds);
}

TEST_F(ServeRequestTest, RenderWhoseWeightsCannotBeLoadedIsAnsweredAndTheJobGoesOn) {
  BeginTraining("j");
  Send(RenderMessage("r1", dir_ / "none.safetensors"));
  const EngineMessage answer = ReceiveAnswer();
  EXPECT_EQ(answer.id(), "r1");
  EXPECT_THAT(ErrorOf(answer), StatusIs(absl::StatusCode::kNotFound));
  ExpectStepsAreTaken();
}

TEST_F(ServeRequestTest, RenderWithoutAJobSaysThatItIsAtWork) {
  Send(HugeRender("r1", TrainToTheEnd("j", 5).model()));
  for (int i = 0; i < 2; ++i) ExpectWorking(ReceiveAnswer(), "r1");
  CancelAtWork("r1");
}

TEST_F(ServeRequestTest, RendersModelFilesWithAndWithoutTraining) {
  WorkerRequest request = RenderMessage("r1", TrainToTheEnd("j", 20).model());
  v1::RenderImageRequest& view = *request.mutable_render()->mutable_view();
  view.set_format(v1::JPEG);
  view.clear_channels();  // the same as RGB
  Send(request);
  const EngineMessage idle = ReceiveAnswer();
  ASSERT_THAT(idle, Says(EngineMessage::kRendered));
  EXPECT_EQ(idle.rendered().response().step(), 20u);
  EXPECT_EQ(idle.rendered().response().far(), 0);
  ASSERT_EQ(idle.rendered().files_size(), 1);
  EXPECT_THAT(DecodeImage(FilesOf(idle)[v1::RGB]), IsOk());

  BeginTraining("k");
  request.set_id("../../evil id");
  view.set_format(v1::IMAGE_FORMAT_UNSPECIFIED);
  Send(request);
  const EngineMessage busy = ReceiveAnswer();
  ASSERT_THAT(busy, Says(EngineMessage::kRendered));
  EXPECT_EQ(FilesOf(busy)[v1::RGB], dir_ / "renders/______evil_id_rgb.png");
}

TEST_F(ServeRequestTest, ModelAndCheckpointRenderTheSameBytes) {
  const internal::SavedState saved = TrainToTheEnd("j", 20);
  Send(RenderMessage("model", saved.model()));
  const std::string of_model = PictureOf(ReceiveAnswer());
  Send(RenderMessage("checkpoint", saved.checkpoint()));
  EXPECT_TRUE(PictureOf(ReceiveAnswer()) == of_model);
}

TEST_F(ServeRequestTest, RendersTheCameraOfItsRequest) {
  WorkerRequest request = RenderMessage("r", TrainToTheEnd("j", 20).model());
  v1::RenderImageRequest& view = *request.mutable_render()->mutable_view();
  view.clear_orbit();
  view.clear_width();
  view.clear_height();
  v1::Camera& camera = *view.mutable_camera();
  camera.set_width(10);
  camera.set_height(8);
  camera.set_fl_x(12);
  for (int i = 0; i < 16; ++i) camera.add_transform_matrix(i % 5 == 0);
  camera.set_transform_matrix(11, 4);
  Send(request);
  const EngineMessage rendered = ReceiveAnswer();
  ASSERT_THAT(rendered, Says(EngineMessage::kRendered));
  EXPECT_EQ(rendered.rendered().response().width(), 10u);
  EXPECT_EQ(rendered.rendered().response().height(), 8u);
  EXPECT_EQ(rendered.rendered().response().path(), v1::PATH_KIND_UNSPECIFIED);
  EXPECT_TRUE(rendered.rendered().response().has_seen_twice());
  EXPECT_FALSE(rendered.rendered().response().far_from_cameras());
  camera.set_transform_matrix(3, 900);
  Send(request);
  EXPECT_TRUE(ReceiveAnswer().rendered().response().far_from_cameras());
  camera.clear_transform_matrix();
  Send(request);
  EXPECT_THAT(ErrorOf(ReceiveAnswer()), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ServeRequestTest, StylesThatNoViewCanHaveAreRefused) {
  const std::string model = TrainToTheEnd("j", 5).model();
  const auto error_of = [&](const v1::ViewStyle& style) {
    WorkerRequest request = RenderMessage("r", model);
    *request.mutable_render()->mutable_view()->mutable_style() = style;
    Send(request);
    return ErrorOf(ReceiveAnswer());
  };
  v1::ViewStyle style;
  for (const double part : {0.0, 0.5, 2.0}) style.add_background(part);
  EXPECT_THAT(error_of(style), StatusIs(absl::StatusCode::kInvalidArgument));
  style.set_background(2, 1);
  EXPECT_THAT(error_of(style), IsOk());
  for (const double side : {1.0, 0.0, 1.0}) style.mutable_crop()->add_size(side);
  EXPECT_THAT(error_of(style), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ServeRequestTest, CheckWithAFolderListsTheViewsThere) {
  WorkerRequest request = CheckMessage("c", dataset_);
  request.mutable_check()->set_out(dir_ / "described");
  Send(request);
  const EngineMessage answer = ReceiveAnswer();
  ASSERT_THAT(answer, Says(EngineMessage::kChecked));
  ASSERT_TRUE(answer.checked().response().ok());
  const auto bytes = ReadFile(answer.checked().views(), 1 << 20);
  ASSERT_THAT(bytes, IsOk());
  v1::DescribeSceneResponse views;
  ASSERT_TRUE(views.ParseFromString(*bytes));
  const absl::StatusOr<Scene> scene = LoadScene(dataset_);
  ASSERT_THAT(scene, IsOk());
  EXPECT_EQ(views.test_views(), scene->test.size());
  EXPECT_EQ(views.training_views(), scene->train.size());
  ASSERT_EQ(static_cast<size_t>(views.views_size()), scene->train.size() + scene->test.size());
  for (size_t i = 0; i < scene->test.size() + scene->train.size(); ++i) {
    const bool is_test = i < scene->test.size();
    const View& view = is_test ? scene->test[i] : scene->train[i - scene->test.size()];
    const v1::SceneView& listed = views.views(static_cast<int>(i));
    EXPECT_EQ(listed.split(), is_test ? v1::SceneView::TEST : v1::SceneView::TRAINING);
    EXPECT_EQ(listed.file(), view.file);
    EXPECT_EQ(listed.camera().width(), static_cast<uint32_t>(view.image.width));
    const Camera own = ToOwnFrame(view.camera, scene->geometry.frame);
    ASSERT_EQ(listed.camera().transform_matrix_size(), 16);
    EXPECT_NEAR(listed.camera().transform_matrix(3), own.camera_to_world.m[0][3], 1e-5);
    EXPECT_NEAR(listed.camera().transform_matrix(10), own.camera_to_world.m[2][2], 1e-5);
  }
}

TEST_F(ServeRequestTest, CheckReportsProblems) {
  std::filesystem::create_directory(dir_ / "empty");
  WorkerRequest request = CheckMessage("c", dir_ / "empty");
  request.mutable_check()->set_out(dir_ / "described");
  Send(request);
  const EngineMessage answer = ReceiveAnswer();
  ASSERT_THAT(answer, Says(EngineMessage::kChecked));
  EXPECT_FALSE(answer.checked().response().ok());
  EXPECT_FALSE(answer.checked().response().summary().empty());
  EXPECT_GT(answer.checked().response().problems_size(), 0);
  EXPECT_EQ(answer.checked().views(), "");
}

TEST_F(ServeRequestTest, CheckWithAnyShareOfTestViewsIsAnswered) {
  for (const uint32_t test_every : {0u, 1u, 3u, 2'147'483'648u, 4'294'967'295u}) {
    WorkerRequest request = CheckMessage("c", dataset_);
    request.mutable_check()->set_out(dir_ / "described");
    request.mutable_check()->set_test_every(test_every);
    Send(request);
    EXPECT_EQ(ReceiveAnswer().id(), "c") << test_every;
  }
}

}  // namespace
}  // namespace nerf
