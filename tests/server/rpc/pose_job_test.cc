// Pose jobs through the whole server: a client and a fake worker with COLMAP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/rpc/metadata.h"
#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

class PoseJobTest : public testing::Test {
 protected:
  static v1::PoseSpec& Spec(v1::CreateJobRequest& request) {
    return *request.mutable_job()->mutable_pose();
  }
  v1::CreateJobRequest Request(const std::string& id = "fox") {
    v1::CreateJobRequest request;
    request.set_job_id(id);
    Spec(request).set_scene("projects/default/scenes/garden");
    for (const char* name : {"a.jpg", "b.JPEG", "c.png"}) {
      v1::SceneFile* file = Spec(request).add_files();
      file->set_path(name);
      *file->mutable_blob() = server_.Put(name);
    }
    return request;
  }

  v1::Job Get(const std::string& id = "fox") {
    return server_.GetJob("projects/default/jobs/" + id);
  }

  std::unique_ptr<FakeWorker> NewWorker(const std::string& id = "w-1",
                                        std::vector<std::string> features = {"colmap",
                                                                             "pose-options"}) {
    auto worker = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
    worker->Hello({}, {"ngp"}, std::move(features));
    return worker;
  }

  // The same photographs, added to a scene that is there.
  v1::CreateJobRequest Addition() {
    v1::CreateJobRequest request = Request("more");
    Spec(request).set_scene("projects/default/scenes/garden-2");
    Spec(request).set_into("projects/default/scenes/garden");
    return request;
  }

  v1::CommitPosesRequest Commit(const v1::DesiredJob& grant, const std::string& worker = "w-1") {
    v1::CommitPosesRequest request;
    request.set_job(grant.job());
    request.set_lease_epoch(grant.lease_epoch());
    request.set_worker_id(worker);
    request.mutable_report()->set_photographs(3);
    request.mutable_report()->set_posed(2);
    request.mutable_report()->add_warnings("little overlap");
    *request.mutable_report()->mutable_json() = server_.Make("{}");
    for (const char* path : {"images/a.jpg", "sparse/0/images.bin"}) {
      v1::SceneManifestEntry* file = request.add_files();
      file->set_path(path);
      *file->mutable_blob() = server_.Make(path);
    }
    return request;
  }
  absl::Status CommitPoses(const v1::CommitPosesRequest& request) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), RpcTestServer::kToken, &context);
    context.AddMetadata(kWorkerKeyMetadata, "key of " + request.worker_id());
    v1::CommitPosesResponse response;
    return FromGrpcStatus(server_.worker_stub->CommitPoses(&context, request, &response));
  }

  RpcTestServer server_;
};

TEST_F(PoseJobTest, PhotographsBecomeASceneOnAWorkerThatHasColmap) {
  const auto created = server_.Create(Request());
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->name(), "projects/default/jobs/fox");
  EXPECT_EQ(created->state(), v1::Job::QUEUED);
  EXPECT_EQ(created->wait().reason(), "NO_WORKER");
  EXPECT_EQ(created->pose().min_posed(), 0.9);
  EXPECT_EQ(created->pose().film_frames(), 120u);

  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), created->name());
  ASSERT_EQ(grant->pose().files_size(), 3);
  EXPECT_EQ(grant->pose().files(0).path(), "a.jpg");
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::RUNNING);
  report.mutable_pose_progress()->set_stage(3);
  report.mutable_pose_progress()->set_stages(7);
  report.mutable_pose_progress()->set_doing("matching");
  worker->SendReport(report);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(Get().state(), v1::Job::RUNNING);
  EXPECT_EQ(Get().pose_status().progress().doing(), "matching");
  EXPECT_THAT(Get().workers(), ElementsAre("workers/w-1"));

  ASSERT_THAT(CommitPoses(Commit(*grant)), IsOk());
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(created->name()));
  const v1::Job done = Get();
  EXPECT_EQ(done.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(done.pose_status().report().posed(), 2u);
  EXPECT_THAT(done.pose_status().report().warnings(), ElementsAre("little overlap"));
  v1::GetSceneRequest scene_request;
  scene_request.set_name(done.pose().scene());
  v1::Scene scene;
  ASSERT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::GetScene,
                                  scene_request, &scene),
              IsOk());
  EXPECT_EQ(scene.name(), "projects/default/scenes/garden");
  EXPECT_EQ(scene.files_size(), 2);
  EXPECT_EQ(server_.CreateJob(scene.name()).state(), v1::Job::QUEUED);
}

TEST_F(PoseJobTest, WatchShowsEveryStateTheStagesAndResumes) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  v1::WatchJobRequest request;
  request.set_name("projects/default/jobs/fox");
  grpc::ClientContext context;
  PrepareCall(absl::Seconds(20), "", &context);
  auto stream = server_.job_stub->WatchJob(&context, request);
  v1::WatchJobResponse event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.kind(), v1::WatchJobResponse::SNAPSHOT);
  const std::string first_token = event.resume_token();
  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::RUNNING);
  report.mutable_pose_progress()->set_stage(3);
  report.mutable_pose_progress()->set_doing("matching");
  worker->SendReport(report);
  while (event.job().pose_status().progress().doing() != "matching")
    ASSERT_TRUE(stream->Read(&event));
  ASSERT_THAT(CommitPoses(Commit(*grant)), IsOk());
  while (stream->Read(&event)) {
  }
  EXPECT_THAT(FromGrpcStatus(stream->Finish()), IsOk());
  EXPECT_EQ(event.job().state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(event.job().pose().files_size(), 0);
  EXPECT_EQ(event.job().pose_status().file_count(), 3u);

  request.set_resume_token(first_token);
  grpc::ClientContext again;
  PrepareCall(absl::Seconds(20), "", &again);
  auto resumed = server_.job_stub->WatchJob(&again, request);
  std::vector<v1::Job::State> states;
  while (resumed->Read(&event)) {
    if (states.empty() || states.back() != event.job().state()) {
      states.push_back(event.job().state());
    }
  }
  EXPECT_THAT(FromGrpcStatus(resumed->Finish()), IsOk());
  EXPECT_THAT(states, ElementsAre(v1::Job::QUEUED, v1::Job::PREPARING, v1::Job::RUNNING,
                                  v1::Job::SUCCEEDED));
}

TEST_F(PoseJobTest, WaitsWithTheReasonWhileNoWorkerHasColmap) {
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  worker.Hello({}, {"ngp"}, {"ffmpeg"});
  worker.Idle();
  ASSERT_TRUE(worker.WaitFor([](const auto&) { return true; }).has_value());
  ASSERT_THAT(server_.Create(Request()), IsOk());
  EXPECT_EQ(Get().wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get().wait().message(), HasSubstr("COLMAP"));
  EXPECT_EQ(worker.WaitForOrder(v1::DesiredJob::POSE, absl::Milliseconds(200)), std::nullopt);
}

TEST_F(PoseJobTest, AdditionGetsTheScenesFilesAndKeepsItUntilItsEnd) {
  EXPECT_THAT(server_.Create(Addition()), StatusIs(StatusCode::kNotFound));
  const std::string scene = server_.CreateScene("garden");
  v1::CreateJobRequest request = Addition();
  Spec(request).set_camera(v1::PoseSpec::PERSPECTIVE);
  ASSERT_THAT(server_.Create(request), IsOk());
  EXPECT_EQ(Get("more").pose().into(), scene);
  EXPECT_EQ(Get("more").pose().camera(), v1::PoseSpec::PERSPECTIVE);
  auto old_worker = NewWorker("w-old", {"colmap"});
  old_worker->Idle();
  ASSERT_TRUE(old_worker->WaitFor([](const auto&) { return true; }).has_value());
  EXPECT_EQ(Get("more").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("more").wait().message(), HasSubstr("older versions do not"));

  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->pose().files_size(), 3);
  v1::GetSceneRequest asked;
  asked.set_name(scene);
  v1::Scene there;
  ASSERT_THAT(
      RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::GetScene, asked, &there),
      IsOk());
  EXPECT_EQ(grant->pose().into_files_size(), there.files_size());
  EXPECT_EQ(grant->pose().camera(), v1::PoseSpec::PERSPECTIVE);
  v1::DeleteSceneRequest gone;
  gone.set_name(scene);
  google::protobuf::Empty ignored;
  const auto remove = [&] {
    return RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::DeleteScene, gone,
                               &ignored);
  };
  EXPECT_THAT(remove(), StatusIs(StatusCode::kFailedPrecondition, "jobs/more"));
  ASSERT_THAT(CommitPoses(Commit(*grant)), IsOk());
  EXPECT_EQ(Get("more").state(), v1::Job::SUCCEEDED);
  EXPECT_THAT(remove(), IsOk());
}

TEST_F(PoseJobTest, CancelReachesTheWorkerAndItsLateCommitIsRefused) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  const auto cancelled = server_.CancelJob(grant->job());
  ASSERT_THAT(cancelled, IsOk());
  EXPECT_EQ(cancelled->state(), v1::Job::CANCELLING);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::CANCEL).has_value());
  EXPECT_THAT(CommitPoses(Commit(*grant)), StatusIs(StatusCode::kFailedPrecondition));
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::CANCELLED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(grant->job()));
  EXPECT_EQ(Get().state(), v1::Job::CANCELLED);
  EXPECT_THAT(server_.DeleteJob(grant->job()), IsOk());
  EXPECT_EQ(server_.ListJobs().jobs_size(), 0);
}

TEST_F(PoseJobTest, FailureNamesPhotographsAndKeepsTheReport) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  v1::CommitPosesRequest commit = Commit(*grant);
  commit.clear_files();
  ASSERT_THAT(CommitPoses(commit), IsOk());
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::FAILED);
  report.mutable_error()->set_code(static_cast<int>(StatusCode::kInvalidArgument));
  report.mutable_error()->set_message("2 of 3 are posed");
  report.add_problems()->set_file("c.png");
  worker->SendReport(report);
  ASSERT_TRUE(worker->WaitForAcknowledgement(grant->job()));
  const v1::Job job = Get();
  EXPECT_EQ(job.state(), v1::Job::FAILED);
  EXPECT_EQ(job.error().message(), "2 of 3 are posed");
  ASSERT_EQ(job.problems_size(), 1);
  EXPECT_EQ(job.problems(0).file(), "c.png");
  EXPECT_TRUE(job.pose_status().report().has_json());
}

TEST_F(PoseJobTest, WrongNamesOfFilesAreRefusedOneByOne) {
  v1::CreateJobRequest request = Request();
  const std::vector<std::string> names = {
      "a/b.jpg", "../a.jpg", ".a.jpg",        "a.tiff",       "a.txt",        "",
      "/a.jpg",  "a\n.jpg",  "masks/b/a.png", "masks/.a.png", "masks/a.webp", "Masks/a.png"};
  for (const std::string& name : names) {
    v1::SceneFile* file = Spec(request).add_files();
    file->set_path(name);
    *file->mutable_blob() = server_.Put("x");
  }
  std::vector<std::string> fields = server_.WrongFields(request);
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_THAT(fields, testing::Contains("job.pose.files[" + std::to_string(3 + i) + "].path"))
        << names[i];
  }
  EXPECT_THAT(server_.Create(request).status().message(), HasSubstr("save it as JPEG"));
}

TEST_F(PoseJobTest, MasksGoWithPhotographsAndNotAlone) {
  v1::CreateJobRequest request = Request();
  v1::SceneFile* mask = Spec(request).add_files();
  mask->set_path("masks/a.png");
  *mask->mutable_blob() = server_.Put("mask");
  const auto created = server_.Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->pose_status().file_count(), 3U) << "without masks";
  // A worker of an earlier version would leave the masks out.
  auto older = NewWorker();
  ASSERT_TRUE(older->WaitFor([](const auto&) { return true; }).has_value());
  EXPECT_EQ(Get().wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get().wait().message(), HasSubstr("reads their masks"));
  auto newer = NewWorker("w-2", {"colmap", "pose-options", "pose-masks"});
  EXPECT_TRUE(newer->WaitForOrder(v1::DesiredJob::POSE).has_value());
  v1::CreateJobRequest alone = request;
  Spec(alone).mutable_files()->DeleteSubrange(0, 3);
  EXPECT_THAT(server_.WrongFields(alone), testing::Contains("job.pose.files"));
}

TEST_F(PoseJobTest, HostileRequestsAreRefusedWithTheirField) {
  const std::vector<std::pair<std::string, std::function<void(v1::CreateJobRequest*)>>> cases = {
      {"job.pose.files", [](auto* r) { Spec(*r).clear_files(); }},
      {"job.pose.files",
       [](auto* r) {
         for (int i = 0; i < 10001; ++i) Spec(*r).add_files()->set_path("a.jpg");
       }},
      {"job.pose.files[3].path", [](auto* r) { *Spec(*r).add_files() = r->job().pose().files(0); }},
      {"job.pose.files[0].blob.sha256",
       [](auto* r) { Spec(*r).mutable_files(0)->mutable_blob()->set_sha256("no digest"); }},
      {"job.pose.files[0].blob.size_bytes",
       [](auto* r) { Spec(*r).mutable_files(0)->mutable_blob()->set_size_bytes(-1); }},
      {"job.pose.scene", [](auto* r) { Spec(*r).set_scene("garden"); }},
      {"job.pose.scene", [](auto* r) { Spec(*r).set_scene("projects/lab/scenes/garden"); }},
      {"job.pose.min_posed", [](auto* r) { Spec(*r).set_min_posed(-0.1); }},
      {"job.pose.min_posed", [](auto* r) { Spec(*r).set_min_posed(std::nan("")); }},
      {"job.pose.film_frames", [](auto* r) { Spec(*r).set_film_frames(1u << 31); }},
      {"job.pose.film_frames",
       [](auto* r) {
         Spec(*r).set_film_frames(2000);
         for (const char* name : {"f.mp4", "g.mp4", "h.mp4"}) {
           v1::SceneFile* film = Spec(*r).add_files();
           *film = r->job().pose().files(0);
           film->set_path(name);
         }
       }},
      {"job.pose.into", [](auto* r) { Spec(*r).set_into("garden"); }},
      {"job.pose.into", [](auto* r) { Spec(*r).set_into("projects/lab/scenes/garden"); }},
      {"job.pose.camera",
       [](auto* r) { Spec(*r).set_camera(static_cast<v1::PoseSpec::Camera>(7)); }},
      {"job.pose.camera",
       [](auto* r) {
         Spec(*r).set_into("projects/default/scenes/old");
         Spec(*r).set_camera(v1::PoseSpec::EQUIRECTANGULAR);
       }},
      {"job.pose.mask_below_degrees", [](auto* r) { Spec(*r).set_mask_below_degrees(91); }},
      {"job.pose.mask_below_degrees",
       [](auto* r) { Spec(*r).set_mask_below_degrees(std::nan("")); }},
      {"job.pose.mask_below_degrees",
       [](auto* r) {
         Spec(*r).set_camera(v1::PoseSpec::PERSPECTIVE);
         Spec(*r).set_mask_below_degrees(60);
       }},
      {"job.priority", [](auto* r) { r->mutable_job()->set_priority(101); }},
      {"job.labels", [](auto* r) { (*r->mutable_job()->mutable_labels())["A B"] = ""; }},
      {"job.display_name", [](auto* r) { r->mutable_job()->set_display_name("\x1b"); }},
      {"job_id", [](auto* r) { r->set_job_id("-"); }},
      {"request_id", [](auto* r) { r->set_request_id("7"); }}};
  for (const auto& [field, spoil] : cases) {
    v1::CreateJobRequest request = Request();
    spoil(&request);
    EXPECT_THAT(server_.WrongFields(request), ElementsAre(field));
  }
  v1::CreateJobRequest unknown = Request();
  Spec(unknown).mutable_files(0)->mutable_blob()->set_sha256(std::string(64, 'a'));
  const absl::Status missing = server_.Create(unknown).status();
  EXPECT_EQ(GetReason(missing)->reason, reason::kBlobsMissing);
}

TEST_F(PoseJobTest, WorkersCommitIsCheckedToo) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  v1::CommitPosesRequest outside = Commit(*grant);
  outside.mutable_files(0)->set_path("../../etc/passwd");
  EXPECT_THAT(CommitPoses(outside), StatusIs(StatusCode::kInvalidArgument));
  v1::CommitPosesRequest absent = Commit(*grant);
  absent.mutable_files(0)->mutable_blob()->set_sha256(std::string(64, 'a'));
  EXPECT_THAT(CommitPoses(absent), StatusIs(StatusCode::kFailedPrecondition));
  v1::CommitPosesRequest stale = Commit(*grant);
  stale.set_lease_epoch(7);
  EXPECT_EQ(GetReason(CommitPoses(stale))->reason, reason::kLeaseFenced);
  v1::CommitPosesRequest other = Commit(*grant);
  other.set_job("projects/default/scenes/fox");
  EXPECT_THAT(CommitPoses(other), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(worker->Commit(CheckpointRequest(server_, *grant, 10)),
              FailsWith(StatusCode::kFailedPrecondition, reason::kKindCannot));
  v1::CommitPosesRequest many = Commit(*grant);
  for (int i = 0; i < 200; ++i) many.mutable_report()->add_again(std::string(5000, 'x'));
  many.mutable_report()->set_parallax_degrees(std::nan(""));
  ASSERT_THAT(CommitPoses(many), IsOk());
  EXPECT_EQ(Get().pose_status().report().again_size(), 100);
  EXPECT_EQ(Get().pose_status().report().again(0).size(), 1024u);
  EXPECT_EQ(Get().pose_status().report().parallax_degrees(), 0);
}

class PoseTrainingCallTest : public PoseJobTest {
 protected:
  v1::CreateJobRequest Training(const std::string& poses = "projects/default/jobs/fox") {
    v1::CreateJobRequest request;
    request.set_job_id("train");
    request.mutable_job()->mutable_training()->set_pose_job(poses);
    request.mutable_job()->mutable_training()->mutable_config()->set_steps(100);
    return request;
  }
};

TEST_F(PoseTrainingCallTest, TrainingWaitsForThePoseJobAndSaysHowFarThatIs) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  const auto created = server_.Create(Training());
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->state(), v1::Job::QUEUED);
  EXPECT_EQ(created->training().scene(), "projects/default/scenes/garden");
  EXPECT_EQ(created->training().pose_job(), "projects/default/jobs/fox");
  EXPECT_EQ(created->wait().reason(), "POSES");
  EXPECT_EQ(created->wait().message(), "pose job fox is QUEUED: no worker is connected");
  server_.Stop();
  server_.Start();

  auto worker = NewWorker();
  const auto poses = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(poses.has_value());
  v1::JobReport report = FakeWorker::Report(*poses, v1::JobReport::RUNNING);
  report.mutable_pose_progress()->set_stage(6);
  report.mutable_pose_progress()->set_stages(7);
  report.mutable_pose_progress()->set_doing("placing cameras");
  report.mutable_pose_progress()->set_done(12);
  report.mutable_pose_progress()->set_of(50);
  report.mutable_pose_progress()->set_unit("photographs");
  report.mutable_pose_progress()->mutable_sketch()->set_points(std::string(5000, 'p'));
  for (int i = 0; i < 40; ++i) {
    v1::PoseStage* stage = report.mutable_pose_progress()->add_finished();
    stage->set_doing(std::string(1000, 'x'));
    stage->set_of(50);
  }
  report.mutable_pose_progress()->set_eta_seconds(90);
  report.mutable_pose_progress()->set_matches_per_second(1e5);
  worker->SendReport(report);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(server_.GetJob(created->name()).wait().message(),
            "pose job fox is RUNNING: 6/7 placing cameras: 12 of 50 photographs, about 90 s left");
  EXPECT_EQ(Get().pose_status().progress().unit(), "photographs");
  EXPECT_EQ(Get().pose_status().progress().sketch().points().size(), 600u);
  EXPECT_EQ(Get().pose_status().progress().finished_size(), 32) << "bounded, whoever reports";
  EXPECT_EQ(Get().pose_status().progress().finished(31).doing().size(), 128u);
  EXPECT_EQ(Get().pose_status().progress().eta_seconds(), 90);
  EXPECT_EQ(Get().pose_status().progress().matches_per_second(), 1e5);
  ASSERT_THAT(CommitPoses(Commit(*poses)), IsOk());
  worker->SendReport(FakeWorker::Report(*poses, v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(poses->job()));
  worker->Idle();
  EXPECT_EQ(server_.GetJob(created->name()).wait().reason(), "POSES");
  server_.Tick();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), created->name());
  EXPECT_EQ(grant->files_size(), 2) << "the scene's";
}

TEST_F(PoseTrainingCallTest, SceneOrPoseJobAndOfThisProject) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  const auto field_of = [&](const v1::CreateJobRequest& request) {
    const std::vector<std::string> wrong = server_.WrongFields(request);
    return wrong.size() == 1 ? wrong[0] : "";
  };
  v1::CreateJobRequest both = Training();
  both.mutable_job()->mutable_training()->set_scene("projects/default/scenes/garden");
  EXPECT_EQ(field_of(both), "job.training.scene");
  EXPECT_EQ(field_of(Training("")), "job.training.scene");
  for (const char* name : {"fox", "projects/lab/jobs/fox", "projects/default/scenes/fox",
                           "projects/default/jobs/", "projects/default/jobs/fox/"}) {
    EXPECT_EQ(field_of(Training(name)), "job.training.pose_job") << name;
  }
  EXPECT_THAT(server_.Create(Training("projects/default/jobs/none")),
              StatusIs(StatusCode::kNotFound));
  v1::CreateJobRequest asked = Training();
  asked.set_validate_only(true);
  ASSERT_THAT(server_.Create(asked), IsOk());
  EXPECT_EQ(server_.Create(asked)->wait().reason(), "POSES");
}

}  // namespace
}  // namespace nerf
