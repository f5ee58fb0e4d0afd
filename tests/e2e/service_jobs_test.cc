// Jobs, renders, models and metrics through the built binaries, as a user meets them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "common/files/file_io.h"
#include "common/messages/blob_ref.h"
#include "common/process/exit_code.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/channel.h"
#include "engine/scene/pictures/image_io.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "tests/e2e/owner_channel.h"
#include "tests/e2e/service_harness.h"
#include "tests/testing/metric_families.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ServiceJobsTest : public ServiceTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(StartNerfd()) << nerfd().err();
    ASSERT_TRUE(WaitUntil(kLong, [&] {
      const CtlResult workers = Ctl({"worker", "ls", "-o", "json"});
      return workers.code == kOk && !workers.json().empty();
    })) << "its worker did not connect";
  }

  // Trains the small scene for a moment and promotes the result to model `m`.
  void TrainSmallModel() {
    CreateSmallScene();
    const CtlResult created = CreateJob("first", {"--steps", "200"});
    ASSERT_EQ(created.code, kOk) << created.err;
    ASSERT_TRUE(WaitForState("first", "SUCCEEDED"));
    const CtlResult promoted = Ctl({"model", "promote", "first", "--id", "m"});
    ASSERT_EQ(promoted.code, kOk) << promoted.err;
  }

  // The small scene with `n` test views, which repeat the sample's 25.
  std::string SceneOfManyTestViews(int n) {
    const std::filesystem::path scene = SmallScene(16, 25);
    Json transforms = Json::parse(ReadWholeFile(scene / "transforms_test.json"));
    const Json frames = transforms["frames"];
    for (size_t i = frames.size(); i < static_cast<size_t>(n); ++i) {
      Json frame = frames[i % frames.size()];
      const std::string image = frame["file_path"].get<std::string>();
      const std::string copy = image + "_" + std::to_string(i);
      std::filesystem::copy_file(scene / (image + ".png"), scene / (copy + ".png"));
      frame["file_path"] = copy;
      transforms["frames"].push_back(std::move(frame));
    }
    std::ofstream(scene / "transforms_test.json") << transforms;
    return scene;
  }

  // Where nerfd keeps the file of a blob message.
  std::string BlobFile(const Json& blob) const {
    const std::string sha256 = blob["sha256"];
    return data_dir() + "/blobs/" + sha256.substr(0, 2) + "/" + sha256;
  }

  // Uploads a folder as it is, which nerfctl would not do with a bad one.
  void CreateSceneUnchecked(const std::string& folder, const std::string& id) {
    const auto channel = OwnerChannel(address());
    BlobClient blobs(channel, {});
    v1::CreateSceneRequest request;
    request.set_scene_id(id);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string bytes = ReadWholeFile(entry.path());
      auto* file = request.mutable_scene()->add_files();
      file->set_path(std::filesystem::relative(entry.path(), folder));
      *file->mutable_blob() = BlobOfBytes(bytes);
      ASSERT_THAT(blobs.UploadBytes(bytes, file->blob()), IsOk());
    }
    grpc::ClientContext context;
    PrepareCall(kLong, "", &context);
    v1::Scene scene;
    const auto stub = v1::SceneService::NewStub(channel);
    const grpc::Status status = stub->CreateScene(&context, request, &scene);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
};

// The test starts the worker, so that both watchers exist before the job starts.
class ServiceWithoutWorkerTest : public ServiceTest {
 protected:
  void SetUp() override { ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err(); }

  std::vector<std::string> WorkerFlags(const std::string& token_file) {
    return {"--server", address(), "--cache-dir", dir_ / "elsewhere", "--token-file", token_file};
  }
};

TEST_F(ServiceWithoutWorkerTest, OpenPrintsTheLinkOfThePage) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  const Json ports = Json::parse(ReadWholeFile(data_dir() + "/nerfd.ports"));
  std::string token = ReadWholeFile(data_dir() + "/admin.token");
  while (token.ends_with('\n')) token.pop_back();
  ASSERT_NE(token, "");
  const CtlResult opened = Ctl({"open"});
  EXPECT_EQ(opened.code, 0) << opened.err;
  EXPECT_EQ(opened.out, "http://" + ports["web"].get<std::string>() + "/#token=" + token + "\n");
  nerfd().Kill(SIGTERM);
  EXPECT_EQ(nerfd().Wait(kLong), 0);
  EXPECT_EQ(Ctl({"open"}).code, 5);
}

TEST_F(ServiceWithoutWorkerTest, TwoWatchersSeeTheSameOrderedGapFreeStatesToTheEnd) {
  const std::string sample = SourceDir() + "/examples/mic";
  const CtlResult created = Ctl({"scene", "create", sample, "--id", "mic", "-o", "name"});
  ASSERT_EQ(created.code, kOk) << created.err;
  EXPECT_EQ(created.out, "projects/default/scenes/mic\n");
  const CtlResult queued =
      CreateJob("job", {"--samples", "3000000", "--background", "white"}, "mic");
  ASSERT_EQ(queued.code, kOk) << queued.err;
  EXPECT_EQ(queued.json()["state"], "QUEUED");
  BinaryProcess& one = StartWatch("job");
  BinaryProcess& two = StartWatch("job");
  ASSERT_TRUE(WaitUntil(kLong, [&] { return !one.lines().empty() && !two.lines().empty(); }));

  const auto worker = Start("nerf-worker", WorkerFlags(data_dir() + "/worker.token"));
  ASSERT_EQ(one.Wait(absl::Seconds(120 * kSlower)), kOk) << one.err() << worker->err();
  ASSERT_EQ(two.Wait(kLong), kOk) << two.err();
  const WatchRecord seen = Seen(one);
  EXPECT_THAT(seen.States(), ElementsAre("QUEUED", "PREPARING", "RUNNING", "SUCCEEDED"));
  EXPECT_EQ(Seen(two).Milestones(), seen.Milestones());
  seen.ExpectGapFree();
  Seen(two).ExpectGapFree();

  const Json job = GetJob("job"), training = job["trainingStatus"];
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_GE(training["progress"]["samples"].get<double>(), 3'000'000);
  EXPECT_GT(training["finalPsnr"].get<double>(), 15);
  EXPECT_EQ(LastCheckpoint(job), StepOf(job));
  EXPECT_EQ(training["effectiveConfig"]["settings"]["step"], "0.02");
  EXPECT_EQ(training["effectiveConfig"]["settings"]["beta1"], "0.9") << "defaults are included";

  worker->Kill(SIGTERM);
  EXPECT_EQ(worker->Wait(absl::Seconds(25)), kOk) << worker->err();
}

TEST_F(ServiceWithoutWorkerTest, WorkerWithAWrongTokenEndsAsDenied) {
  const std::string wrong = dir_ / "wrong.token";
  std::ofstream(wrong) << std::string(64, 'a') << '\n';
  const auto worker = Start("nerf-worker", WorkerFlags(wrong));
  EXPECT_EQ(worker->Wait(kLong), kDenied);
  EXPECT_THAT(worker->err(), HasSubstr("--token-file"));
  const CtlResult workers = Ctl({"worker", "ls", "-o", "json"});
  EXPECT_EQ(workers.code, kOk) << workers.err;
  EXPECT_THAT(workers.json(), testing::IsEmpty());
}

TEST_F(ServiceWithoutWorkerTest, CheckWithoutAWorkerAndRenderWithoutACheckpointSayWhatIsMissing) {
  CreateSmallScene();
  const CtlResult check = Ctl({"scene", "check", "small"});
  EXPECT_EQ(check.code, kUnreachable);
  EXPECT_THAT(check.err, HasSubstr("NO_WORKER"));
  ASSERT_EQ(CreateJob("job", {"--steps", "10"}).code, kOk);
  const CtlResult render = Ctl({"render", "--job", "job", "--orbit", "1", "--out", dir_ / "views"});
  EXPECT_EQ(render.code, kWrongState) << render.err;
  EXPECT_THAT(render.err, HasSubstr("has no checkpoint yet"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "views"));
}

TEST_F(ServiceJobsTest, TrainChecksUploadsAndWatchesAndItsRequestIdMakesItSafeToRepeat) {
  const std::string folder = SmallScene();
  const std::vector<std::string> train = {"train",        folder,
                                          "--steps",      "50",
                                          "--set",        "log2_hashmap_size=12",
                                          "--set",        "grid_resolution=32",
                                          "--set",        "step=0.02",
                                          "--request-id", "7d444840-9dc0-41d1-b245-5ffdce74fad2"};
  const CtlResult first = Ctl(train);
  ASSERT_EQ(first.code, kOk) << first.err;
  EXPECT_THAT(first.out, HasSubstr("SUCCEEDED"));
  EXPECT_THAT(first.out, HasSubstr(" dB"));
  const CtlResult again = Ctl(train);
  EXPECT_EQ(again.code, kOk) << again.err;
  EXPECT_THAT(again.err, HasSubstr("files already"));
  EXPECT_EQ(Ctl({"job", "ls", "-o", "json"}).json().size(), 1u);
  EXPECT_EQ(Ctl({"scene", "ls", "-o", "json"}).json().size(), 1u);

  // Another job of the same folder: another id, the same scene.
  const std::vector<std::string> other = {"train", folder, "--steps", "20", "--id", "other"};
  std::vector<std::string> asked = other;
  asked.insert(asked.end(), {"--validate-only", "--init", "absent"});
  EXPECT_EQ(Ctl(asked).code, kNotFound);
  ASSERT_EQ(Ctl(other).code, kOk);
  EXPECT_EQ(Ctl({"scene", "ls", "-o", "json"}).json().size(), 1u);
  asked = other;
  asked.push_back("--validate-only");
  EXPECT_EQ(Ctl(asked).code, kWrongState) << "its id is taken";
}

TEST_F(ServiceJobsTest, CancelStopsTrainingAndFreesTheEngine) {
  CreateSmallScene();
  ASSERT_EQ(CreateJob("long", {"--seconds", "600"}).code, kOk);
  ASSERT_TRUE(WaitForSteps("long"));
  const pid_t engine = WaitForOnly("nerf-engine");
  BinaryProcess& watch = StartWatch("long");
  ASSERT_TRUE(WaitUntil(kLong, [&] { return !watch.lines().empty(); }));

  const absl::Time begin = absl::Now();
  const CtlResult cancelled = Ctl({"job", "cancel", "long", "-o", "json"});
  ASSERT_EQ(cancelled.code, kOk) << cancelled.err;
  ASSERT_EQ(watch.Wait(kLong), kJobFailed);
  const absl::Duration took = absl::Now() - begin;
  RecordProperty("milliseconds", static_cast<int>(absl::ToInt64Milliseconds(took)));
  EXPECT_THAT(watch.err(), HasSubstr("was cancelled"));
  EXPECT_THAT(Seen(watch).States(), ElementsAre("RUNNING", "CANCELLING", "CANCELLED"));
  Seen(watch).ExpectGapFree();
  EXPECT_EQ(Ctl({"job", "cancel", "long"}).code, kOk) << "cancelling again changes nothing";

  ASSERT_EQ(CreateJob("next", {"--steps", "100"}).code, kOk);
  ASSERT_TRUE(WaitForState("next", "SUCCEEDED"));
  EXPECT_EQ(WaitForOnly("nerf-engine"), engine) << "a cancel costs no engine";
  EXPECT_EQ(Ctl({"job", "cancel", "next"}).code, kWrongState);
  EXPECT_EQ(GetJob("long")["state"], "CANCELLED");
}

TEST_F(ServiceJobsTest, ResumeRightAfterPauseTrainsOn) {
  CreateSmallScene();
  ASSERT_EQ(CreateJob("long", {"--seconds", "600"}).code, kOk);
  ASSERT_TRUE(WaitForSteps("long"));
  ASSERT_EQ(Ctl({"job", "pause", "long"}).code, kOk);
  // It is PAUSING or, if the worker was fast, PAUSED.
  const CtlResult resumed = Ctl({"job", "resume", "long"});
  ASSERT_EQ(resumed.code, kOk) << resumed.err;
  ASSERT_TRUE(WaitForJob(
      "long", [](const Json& job) { return job["state"] == "RUNNING" && job["attempt"] == 2; }));
  EXPECT_GT(LastCheckpoint(GetJob("long")), 0);
  EXPECT_EQ(Ctl({"job", "cancel", "long"}).code, kOk);
}

TEST_F(ServiceJobsTest, CancelDuringTheFinalEvaluationEndsCancelledAtOnce) {
  // A field that is still fog renders slowly: 400 test views take minutes.
  const std::string scene = SceneOfManyTestViews(400);
  ASSERT_EQ(Ctl({"scene", "create", scene, "--id", "small"}).code, kOk);
  ASSERT_EQ(CreateJob("foggy", {"--steps", "3", "--set", "near=0.05"}).code, kOk);
  ASSERT_TRUE(WaitForJob("foggy", [](const Json& job) { return LastCheckpoint(job) == 3; }));
  ASSERT_EQ(GetJob("foggy")["state"], "RUNNING");
  const absl::Time begin = absl::Now();
  ASSERT_EQ(Ctl({"job", "cancel", "foggy"}).code, kOk);
  ASSERT_TRUE(WaitForState("foggy", "CANCELLED"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30 * kSlower));
}

TEST_F(ServiceJobsTest, JobsQueueBehindOneAnotherAndAreListedNewestFirst) {
  CreateSmallScene();
  ASSERT_EQ(CreateJob("one", {"--seconds", "600", "--display-name", "the first"}).code, kOk);
  ASSERT_TRUE(WaitForSteps("one"));
  ASSERT_EQ(CreateJob("two", {"--steps", "100"}).code, kOk);
  ASSERT_EQ(CreateJob("three", {"--steps", "100"}).code, kOk);
  EXPECT_EQ(GetJob("two")["state"], "QUEUED");
  EXPECT_EQ(GetJob("two")["attempt"], 0);

  const CtlResult names = Ctl({"job", "ls", "-o", "name"});
  EXPECT_EQ(names.out,
            "projects/default/jobs/three\nprojects/default/jobs/two\n"
            "projects/default/jobs/one\n");
  const CtlResult table = Ctl({"job", "ls"});
  EXPECT_THAT(table.out, HasSubstr("STATE"));
  EXPECT_THAT(table.out, HasSubstr("the first"));
  const CtlResult limited = Ctl({"job", "ls", "-o", "name", "--limit", "1"});
  EXPECT_EQ(limited.out, "projects/default/jobs/three\n");
  const CtlResult workers = Ctl({"worker", "ls", "-o", "json"});
  ASSERT_EQ(workers.json().size(), 1u) << workers.out;
  EXPECT_EQ(workers.json()[0]["state"], "BUSY");

  // A queued job is cancelled at once; the others continue in order.
  const CtlResult cancelled = Ctl({"job", "cancel", "two", "-o", "json"});
  EXPECT_EQ(cancelled.json()["state"], "CANCELLED") << cancelled.err;
  EXPECT_EQ(GetJob("three")["state"], "QUEUED");
  ASSERT_EQ(Ctl({"job", "cancel", "one"}).code, kOk);
  ASSERT_TRUE(WaitForState("three", "SUCCEEDED"));
  EXPECT_EQ(GetJob("two")["attempt"], 0) << "it never ran";
  const CtlResult missing = Ctl({"job", "show", "nowhere"});
  EXPECT_EQ(missing.code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr("nowhere"));
}

TEST_F(ServiceJobsTest, RenderDuringTrainingIsServedWhileStepsGoOn) {
  CreateSmallScene();
  ASSERT_EQ(CreateJob("job", {"--seconds", "600"}).code, kOk);
  ASSERT_TRUE(WaitForSteps("job", 100));
  const int before = StepOf(GetJob("job"));
  const CtlResult rendered = Ctl({"render", "--job", "job", "--orbit", "2", "--width", "100",
                                  "--height", "100", "--out", dir_ / "views"});
  ASSERT_EQ(rendered.code, kOk) << rendered.err;
  EXPECT_LT(rendered.took, kLong) << "the training takes 600 s";
  for (const char* name : {"rgb_0000.png", "rgb_0001.png"}) {
    const auto image = DecodeImage(dir_ / "views/" + name);
    ASSERT_THAT(image, IsOk());
    EXPECT_EQ(image->width, 100);
  }
  ASSERT_TRUE(WaitForSteps("job", before + 1));
  EXPECT_EQ(GetJob("job")["attempt"], 1);
  ASSERT_EQ(Ctl({"job", "cancel", "job"}).code, kOk);
  ASSERT_TRUE(WaitForState("job", "CANCELLED"));
}

TEST_F(ServiceJobsTest, RenderOfAModelHasThePixelsOfNerfEngineRender) {
  TrainSmallModel();
  const CtlResult model = Ctl({"model", "show", "m", "-o", "json"});
  ASSERT_EQ(model.code, kOk) << model.err;
  const std::string file = BlobFile(model.json()["blob"]);
  ASSERT_TRUE(std::filesystem::exists(file)) << file;

  // One view of the data set, in its own size and another one.
  Json camera = Json::parse(ReadWholeFile(SourceDir() + "/examples/mic/transforms_test.json"));
  camera["frames"].erase(camera["frames"].begin() + 1, camera["frames"].end());
  camera["w"] = camera["h"] = 200;
  std::ofstream(dir_ / "camera.json") << camera;
  const std::vector<std::vector<std::string>> views = {
      {"--camera", dir_ / "camera.json"},
      {"--camera", dir_ / "camera.json", "--width", "90", "--height", "90"},
      {"--orbit", "1", "--width", "120", "--height", "80"},
  };
  for (size_t i = 0; i < views.size(); ++i) {
    const std::string by_service = dir_ / "service-" + std::to_string(i);
    const std::string by_engine = dir_ / "engine-" + std::to_string(i);
    std::vector<std::string> flags = views[i];
    flags.insert(flags.end(), {"--channels", "rgb,depth,opacity", "--out"});
    std::vector<std::string> ctl = {"render", "--model", "m"};
    ctl.insert(ctl.end(), flags.begin(), flags.end());
    ctl.push_back(by_service);
    const CtlResult rendered = Ctl(ctl);
    ASSERT_EQ(rendered.code, kOk) << rendered.err;
    std::vector<std::string> offline = {"render", file};
    offline.insert(offline.end(), flags.begin(), flags.end());
    offline.push_back(by_engine);
    const auto engine = Start("nerf-engine", offline);
    ASSERT_EQ(engine->Wait(kLong), kOk) << engine->err();

    for (const char* name : {"/rgb_0000.png", "/opacity_0000.png"}) {
      const auto here = DecodeImage(by_service + name), there = DecodeImage(by_engine + name);
      ASSERT_THAT(here, IsOk());
      ASSERT_THAT(there, IsOk());
      EXPECT_EQ(here->width, there->width);
      EXPECT_EQ(here->height, there->height);
      EXPECT_EQ(here->pixels, there->pixels) << "view " << i << name;
      const std::set<uint8_t> values(here->pixels.begin(), here->pixels.end());
      EXPECT_GT(values.size(), 10u) << "the picture must not be empty";
    }
    // Sixteen bits: the files themselves.
    EXPECT_EQ(ReadWholeFile(by_service + "/depth_0000.png"),
              ReadWholeFile(by_engine + "/depth_0000.png"));
    Json here = Json::parse(ReadWholeFile(by_service + "/depth.json"));
    Json there = Json::parse(ReadWholeFile(by_engine + "/depth.json"));
    for (const char* key : {"color_near", "color_far"}) {
      // The client has the depths in sixteen bits.
      EXPECT_NEAR(here[key].get<double>(), there[key].get<double>(), 1e-3) << key;
      here.erase(key);
      there.erase(key);
    }
    EXPECT_EQ(here, there);
  }
}

TEST_F(ServiceJobsTest, BrokenSceneFailsTheJobWithEveryProblemAndChangesNothingElse) {
  const std::string folder = SmallScene();
  Json transforms = Json::parse(ReadWholeFile(folder + "/transforms_train.json"));
  transforms["frames"][1]["transform_matrix"][0][0] = "north";
  std::ofstream(folder + "/transforms_train.json") << transforms;
  std::ofstream(folder + "/train/r_2.png") << "no picture";
  CreateSceneUnchecked(folder, "broken");

  const CtlResult local = Ctl({"scene", "create", folder});
  EXPECT_EQ(local.code, kBadData) << "nerfctl looks before it sends";
  const CtlResult remote = Ctl({"scene", "check", "broken"});
  EXPECT_EQ(remote.code, kBadData) << remote.err;
  const CtlResult watched = Ctl({"job", "create", "broken", "--id", "doomed", "--watch"});
  EXPECT_EQ(watched.code, kJobFailed) << watched.err;
  for (const std::string& text :
       {local.out + local.err, remote.out + remote.err, watched.out + watched.err}) {
    EXPECT_THAT(text, HasSubstr("transforms_train.json"));
    EXPECT_THAT(text, HasSubstr("transform_matrix"));
    EXPECT_THAT(text, HasSubstr("train/r_2.png"));
  }
  const Json job = GetJob("doomed");
  EXPECT_EQ(job["state"], "FAILED");
  EXPECT_EQ(job["error"]["code"], 3) << "INVALID_ARGUMENT: " << job["error"];
  EXPECT_EQ(job["problems"].size(), 2u) << job["problems"];
  EXPECT_EQ(job["attempt"], 1) << "trying again would not help";

  CreateSmallScene();
  ASSERT_EQ(CreateJob("next", {"--steps", "50"}).code, kOk);
  EXPECT_TRUE(WaitForState("next", "SUCCEEDED"));
}

TEST_F(ServiceJobsTest, TruncatedImagesFailTheJobWithTheNameOfEach) {
  const std::string folder = SmallScene();
  for (const char* name : {"/train/r_1.png", "/train/r_3.png"}) {
    std::filesystem::resize_file(folder + name, 4000);
  }
  CreateSceneUnchecked(folder, "cut");
  const CtlResult watched = Ctl({"job", "create", "cut", "--id", "doomed", "--watch"});
  EXPECT_EQ(watched.code, kJobFailed) << watched.err;
  EXPECT_THAT(watched.err, HasSubstr("train/r_1.png"));
  EXPECT_THAT(watched.err, HasSubstr("train/r_3.png"));
  EXPECT_EQ(GetJob("doomed")["error"]["code"], 3);
}

TEST_F(ServiceJobsTest, InitFromAModelIsAcceptedAndOfAnotherSizeRefusedBeforeAnythingRuns) {
  TrainSmallModel();
  const CtlResult refused =
      CreateJob("misfit", {"--init", "m", "--steps", "50", "--set", "min_transmittance=0.001"});
  EXPECT_EQ(refused.code, kOk) << "settings that do not change shapes are allowed: " << refused.err;
  ASSERT_TRUE(WaitForState("misfit", "SUCCEEDED"));

  const std::vector<std::string> base = {"job",
                                         "create",
                                         "small",
                                         "--steps",
                                         "50",
                                         "--set",
                                         "n_features_per_level=2",
                                         "--set",
                                         "grid_resolution=32"};
  std::vector<std::string> other_shape = base;
  other_shape.insert(other_shape.end(), {"--init", "m", "--id", "refused"});
  const CtlResult other = Ctl(other_shape);
  EXPECT_EQ(other.code, kWrongState) << other.err;
  EXPECT_THAT(other.err, HasSubstr("INIT_MISMATCH"));
  EXPECT_THAT(other.err, HasSubstr("field.hash_table"));
  EXPECT_EQ(Ctl({"job", "show", "refused"}).code, kNotFound);

  std::vector<std::string> no_model = base;
  no_model.insert(no_model.end(), {"--init", "nobody"});
  EXPECT_EQ(Ctl(no_model).code, kNotFound);

  // A start from a trained model is ahead of a start from scratch.
  ASSERT_EQ(CreateJob("warm", {"--init", "m", "--steps", "20"}).code, kOk);
  ASSERT_EQ(CreateJob("cold", {"--steps", "20"}).code, kOk);
  ASSERT_TRUE(WaitForState("cold", "SUCCEEDED"));
  const auto psnr_of = [&](const std::string& id) {
    return GetJob(id)["trainingStatus"]["finalPsnr"].get<double>();
  };
  EXPECT_GT(psnr_of("warm"), psnr_of("cold"));
}

TEST_F(ServiceJobsTest, MetricsHaveEveryFamilyThatIsDueAndPromtoolIsSilent) {
  TrainSmallModel();
  ASSERT_EQ(Ctl({"render", "--model", "m", "--orbit", "1", "--width", "32", "--height", "32",
                 "--out", dir_ / "views"})
                .code,
            kOk);
  // The worker sends its measurements with its next message.
  EXPECT_TRUE(WaitUntil(kLong, [&] {
    return Metrics().find("nerfd_train_steps_total{device=\"") != std::string::npos;
  }));
  const std::string metrics = Metrics();
  for (const char* family : kMetricFamilies) {
    EXPECT_THAT(metrics, HasSubstr(std::string("# TYPE ") + family + " "));
  }
  EXPECT_THAT(metrics, HasSubstr("nerfd_jobs_created_total{project=\"default\"} 1\n"));
  EXPECT_THAT(metrics, Not(HasSubstr("/jobs/"))) << "no label names a job";

  std::string promtool = SourceDir() + "/build/tools/usr/bin/promtool";
  if (!std::filesystem::exists(promtool)) promtool = "promtool";
  std::ofstream(dir_ / "metrics") << metrics;
  const std::string command =
      promtool + " check metrics <" + (dir_ / "metrics") + " >" + (dir_ / "promtool.out") + " 2>&1";
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 127) GTEST_SKIP() << "promtool is not installed";
  EXPECT_EQ(ReadWholeFile(dir_ / "promtool.out"), "");
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ProgramsTest, VersionsArePrintedAlike) {
  const TempDir dir;
  const auto output = [&](const std::string& program, const std::string& flag) {
    const std::string command = BinDir() + "/" + program + " " + flag + " >" + (dir / "out");
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return ReadFile(dir / "out", 1 << 16).value_or("");
  };
  const std::string nerfctl = output("nerfctl", "--version");
  ASSERT_TRUE(nerfctl.starts_with("nerfctl ")) << nerfctl;
  const std::string version = nerfctl.substr(nerfctl.find(' '));
  for (const std::string program : {"nerfctl", "nerfd", "nerf-worker", "nerf-engine"}) {
    for (const char* flag : {"-v", "--version"})
      EXPECT_EQ(output(program, flag), program + version);
  }
}

}  // namespace
}  // namespace nerf
