// nerfctl pose, and nerfctl train with photographs that a worker poses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/error_reason.h"
#include "common/process/exit_code.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class PoseCommandTest : public ServiceTest {
 protected:
  PoseCommandTest() {
    fs::create_directories(dir_ / "garden");
    for (const char* name : {"a.jpg", "b.PNG", ".hidden.jpg", "notes.txt", "c.tiff"}) {
      dir_.Write(std::string("garden/") + name, std::string("photograph ") + name);
    }
    // Stands in for nerf-engine: it must not be asked where a worker poses.
    dir_.Write("engine", "#!/bin/sh\necho \"local: $*\" >&2\nexit 7\n");
    fs::permissions(dir_ / "engine", fs::perms::owner_all);
  }
  void AddWorker(const std::string& colmap, const std::string& ffmpeg = "") {
    v1::Worker worker;
    worker.set_name("workers/w-1");
    worker.set_state(v1::Worker::IDLE);
    worker.add_methods("ngp");
    worker.set_colmap_version(colmap);
    worker.set_ffmpeg_version(ffmpeg);
    state_.workers.push_back(worker);
  }
  void WriteYard() {
    for (const char* file : {"images/a.jpg", "images/b.jpg", "masks/b.png", "masks/x.png"})
      dir_.Write(std::string("yard/") + file, std::string("content of ") + file);
  }
  CommandResult Train(std::vector<std::string> flags = {}, const std::string& what = "garden") {
    std::vector<std::string> words = {"train", dir_ / what, "--engine", dir_ / "engine",
                                      "--detach"};
    words.insert(words.end(), flags.begin(), flags.end());
    return Run(words);
  }

  TempDir dir_;
};

TEST_F(PoseCommandTest, SendsThePhotographsAndFollowsTheStages) {
  const CommandResult result =
      Run({"pose", dir_ / "garden", "--id", "garden", "--progress", "plain", "--min-posed", "0.5"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.pose_requests.size(), 1u);
  const v1::CreateJobRequest request = state_.pose_requests[0];
  EXPECT_EQ(request.job_id(), "garden");
  EXPECT_EQ(request.job().pose().scene(), "projects/default/scenes/garden");
  EXPECT_EQ(request.job().pose().min_posed(), 0.5);
  ASSERT_EQ(request.job().pose().files_size(), 2);
  EXPECT_EQ(request.job().pose().files(0).path(), "a.jpg");
  EXPECT_EQ(request.job().pose().files(1).path(), "b.PNG");
  EXPECT_EQ(state_.blobs.at(request.job().pose().files(0).blob().sha256()), "photograph a.jpg");
  EXPECT_THAT(result.err, HasSubstr("1 picture of kinds that are not read, such as c.tiff"));
  EXPECT_THAT(result.err, HasSubstr("6/7 placing cameras"));
  EXPECT_THAT(result.err, HasSubstr("about 75 s left"));
  EXPECT_THAT(result.err, HasSubstr("connected again"));
  EXPECT_THAT(result.err, HasSubstr("2 of 2 photographs posed"));
  EXPECT_THAT(result.out, HasSubstr("s-fake"));
}

TEST_F(PoseCommandTest, MasksOfPhotographsGoWithThem) {
  WriteYard();
  state_.errors["CreateJob"] = {BlobsMissingError({"blobs/1/2"})};
  ASSERT_EQ(Run({"pose", dir_ / "yard"}).exit_code, kOk);
  const v1::PoseSpec job = state_.pose_requests.at(0).job().pose();
  std::vector<std::string> paths;
  for (const v1::SceneFile& file : job.files()) paths.push_back(file.path());
  ASSERT_THAT(paths, testing::ElementsAre("a.jpg", "b.jpg", "masks/b.png"));
  EXPECT_EQ(state_.blobs.at(job.files(2).blob().sha256()), "content of masks/b.png");
}

TEST_F(PoseCommandTest, SceneAddNamesTheSceneAndPoseTheCamera) {
  const CommandResult result = Run({"scene", "add", "yard", dir_ / "garden", "--id", "yard-2"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.pose_requests.size(), 1u);
  const v1::PoseSpec added = state_.pose_requests[0].job().pose();
  EXPECT_EQ(added.into(), "projects/default/scenes/yard");
  EXPECT_EQ(added.scene(), "projects/default/scenes/yard-2");
  EXPECT_EQ(added.files_size(), 2);
  ASSERT_EQ(
      Run({"pose", dir_ / "garden", "--camera", "equirectangular", "--mask-below", "60"}).exit_code,
      kOk);
  EXPECT_EQ(state_.pose_requests[1].job().pose().camera(), v1::PoseSpec::EQUIRECTANGULAR);
  EXPECT_EQ(state_.pose_requests[1].job().pose().mask_below_degrees(), 60);
  EXPECT_EQ(Run({"scene", "add", "../x", dir_ / "garden"}).exit_code, kUsage);
  EXPECT_EQ(Run({"scene", "add", "yard"}).exit_code, kUsage);
  EXPECT_EQ(Run({"pose", dir_ / "garden", "--mask-below", "nan"}).exit_code, kUsage);
  EXPECT_THAT(Run({"pose", dir_ / "garden", "--camera", "fish"}).err, HasSubstr("perspective"));
  // Said before anything is sent.
  const size_t n_blobs = state_.blobs.size();
  dir_.Write("garden/new.jpg", "not sent yet");
  const CommandResult refused =
      Run({"pose", dir_ / "garden", "--camera", "perspective", "--mask-below", "60"});
  EXPECT_NE(refused.exit_code, kOk);
  EXPECT_THAT(refused.err, HasSubstr("--mask-below: is of panoramas alone"));
  EXPECT_EQ(state_.blobs.size(), n_blobs);
  EXPECT_EQ(state_.pose_requests.size(), 2u);
  // The same of train, where a worker poses and where this machine does.
  const CommandResult local = Train({"--camera", "equirectangular", "--mask-below", "5"});
  EXPECT_THAT(local.err, HasSubstr("--camera equirectangular --mask-below 5"));
  AddWorker("3.8");
  ASSERT_EQ(Train({"--camera", "perspective"}).exit_code, kOk);
  EXPECT_EQ(state_.pose_requests.back().job().pose().camera(), v1::PoseSpec::PERSPECTIVE);
}

TEST_F(PoseCommandTest, SamePhotographsAreTheSameRequest) {
  for (const char* id : {"x", "x", "y"}) {
    ASSERT_EQ(Run({"pose", dir_ / "garden", "--id", id, "--detach"}).exit_code, kOk);
  }
  const auto& requests = state_.pose_requests;
  EXPECT_EQ(requests[0].request_id(), requests[1].request_id());
  EXPECT_NE(requests[0].request_id(), requests[2].request_id());
  // A job that was deleted is of no use: another one is asked for.
  state_.errors["CreateJob"] = {WithReason(absl::NotFoundError("gone"), reason::kResourceNotFound)};
  ASSERT_EQ(Run({"pose", dir_ / "garden", "--id", "x", "--detach"}).exit_code, kOk);
  EXPECT_NE(requests[3].request_id(), requests[0].request_id());
}

TEST_F(PoseCommandTest, FailureNamesThePhotographs) {
  state_.pose_job.set_state(v1::Job::FAILED);
  state_.pose_job.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  state_.pose_job.mutable_error()->set_message("1 of 2 could be posed");
  v1::SceneProblem* problem = state_.pose_job.add_problems();
  problem->set_file("b.PNG");
  problem->set_message("shares nothing\x1b[31m");
  const CommandResult result = Run({"pose", dir_ / "garden"});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.err, HasSubstr("failed: 1 of 2 could be posed"));
  EXPECT_THAT(result.err, HasSubstr("b.PNG: shares nothing"));
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
}

TEST_F(PoseCommandTest, FoldersWithoutPhotographsAndWrongFlagsAreRefused) {
  fs::create_directories(dir_ / "empty");
  EXPECT_THAT(Run({"pose", dir_ / "empty"}).err, HasSubstr("there is no photograph"));
  EXPECT_EQ(Run({"pose", dir_ / "none"}).exit_code, kNotFound);
  EXPECT_EQ(Run({"pose", dir_ / "garden", "--scene", "BAD"}).exit_code, kUsage);
  EXPECT_EQ(Run({"pose", dir_ / "garden", "--min-posed", "2"}).exit_code, kUsage);
  EXPECT_THAT(Train({"--pose", "servr"}).err, HasSubstr("did you mean server?"));
  EXPECT_THAT(Train({"--pose", "server", "--downscale", "2"}).err, HasSubstr("--downscale"));
  EXPECT_TRUE(state_.pose_requests.empty());
}

TEST_F(PoseCommandTest, TrainLetsAWorkerPoseWhereOneCan) {
  AddWorker("");
  const CommandResult local = Train();
  EXPECT_EQ(local.exit_code, 7) << local.err;
  EXPECT_TRUE(state_.pose_requests.empty());

  AddWorker("3.8");
  const CommandResult result = Train();
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(state_.pose_requests.size(), 1u);
  ASSERT_EQ(state_.create_job.size(), 1u);
  // Nothing is waited for: the training begins by itself.
  EXPECT_EQ(state_.create_job[0].job().training().pose_job(), "projects/default/jobs/p-fake");
  EXPECT_EQ(state_.create_job[0].job().training().scene(), "");
  EXPECT_THAT(result.err, Not(HasSubstr("placing cameras")));
  EXPECT_EQ(Train({"--pose", "local"}).exit_code, 7);
  EXPECT_EQ(state_.pose_requests.size(), 1u);

  // Films need ffmpeg there, too.
  dir_.Write("clip.mp4", "a film");
  EXPECT_EQ(Train({}, "clip.mp4").exit_code, 7);
  AddWorker("3.8", "5.1");
  EXPECT_EQ(Train({}, "clip.mp4").exit_code, kOk);
  EXPECT_EQ(state_.pose_requests.back().job().pose().files(0).path(), "clip.mp4");
}

TEST_F(PoseCommandTest, TrainFollowsThePosesAndThenTheTraining) {
  AddWorker("3.8");
  ScriptSuccess();
  const CommandResult result = Run({"train", dir_ / "garden", "--progress", "plain"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  const size_t stage = result.err.find("6/7 placing cameras"), psnr = result.err.find("33.1");
  EXPECT_LT(stage, psnr) << result.err;
}

TEST_F(PoseCommandTest, TrainSentAgainAsksForTheSameTwo) {
  AddWorker("3.8");
  constexpr char kId[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Train({"--request-id", kId}).exit_code, kOk);
  ASSERT_EQ(state_.pose_requests.size(), 2u);
  EXPECT_EQ(state_.pose_requests[0].request_id(), state_.pose_requests[1].request_id());
  EXPECT_NE(state_.pose_requests[0].request_id(), kId);
  EXPECT_EQ(state_.create_job[1].request_id(), kId);
}

TEST_F(PoseCommandTest, SearchThatFailsEndsTheWatch) {
  AddWorker("3.8");
  state_.pose_job.set_state(v1::Job::FAILED);
  state_.pose_job.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  const CommandResult result = Run({"train", dir_ / "garden"});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_EQ(state_.create_job.size(), 1u) << "it fails on the server, by itself";
  EXPECT_THAT(result.err, Not(HasSubstr("job watch")));
}

TEST_F(PoseCommandTest, JobCreateNamesAPoseJobInPlaceOfAScene) {
  state_.pose_job.set_display_name("the garden");
  ASSERT_EQ(Run({"job", "create", "--pose-job", "p-1", "--steps", "10"}).exit_code, kOk);
  ASSERT_EQ(state_.create_job.size(), 1u);
  EXPECT_EQ(state_.create_job[0].job().training().pose_job(), "projects/default/jobs/p-1");
  EXPECT_EQ(state_.create_job[0].job().display_name(), "the garden");
  EXPECT_EQ(Run({"job", "create", "s-1", "--pose-job", "p-1"}).exit_code, kUsage);
  EXPECT_EQ(Run({"job", "create"}).exit_code, kUsage);
  EXPECT_EQ(Run({"job", "create", "--pose-job", "../x"}).exit_code, kUsage);
}

}  // namespace
}  // namespace nerf
