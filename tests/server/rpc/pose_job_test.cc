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
#include "nerf/v1/pose_job_service.grpc.pb.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using Stub = v1::PoseJobService::Stub;

class PoseJobTest : public testing::Test {
 protected:
  void SetUp() override { stub_ = v1::PoseJobService::NewStub(server_.channel); }

  v1::CreatePoseJobRequest Request(const std::string& id = "fox") {
    v1::CreatePoseJobRequest request;
    request.set_pose_job_id(id);
    request.mutable_pose_job()->set_scene("projects/default/scenes/garden");
    for (const char* name : {"a.jpg", "b.JPEG", "c.png"}) {
      v1::SceneFile* file = request.mutable_pose_job()->add_files();
      file->set_path(name);
      *file->mutable_blob() = server_.Put(name);
    }
    return request;
  }

  absl::StatusOr<v1::PoseJob> Create(const v1::CreatePoseJobRequest& request) {
    v1::PoseJob job;
    const absl::Status status = RpcTestServer::Call(*stub_, &Stub::CreatePoseJob, request, &job);
    if (!status.ok()) return status;
    return job;
  }
  v1::PoseJob Get(const std::string& id = "fox") {
    v1::GetPoseJobRequest request;
    request.set_name("projects/default/poseJobs/" + id);
    v1::PoseJob job;
    EXPECT_THAT(RpcTestServer::Call(*stub_, &Stub::GetPoseJob, request, &job), IsOk());
    return job;
  }
  std::vector<std::string> WrongFields(const v1::CreatePoseJobRequest& request) {
    std::vector<std::string> fields;
    for (const auto& violation : GetFieldViolations(Create(request).status())) {
      fields.push_back(violation.field);
    }
    return fields;
  }

  std::unique_ptr<FakeWorker> NewWorker(const std::string& id = "w-1",
                                        std::vector<std::string> features = {"colmap",
                                                                             "pose-options"}) {
    auto worker = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
    worker->Hello({}, {"ngp"}, std::move(features));
    return worker;
  }

  // The same photographs, added to a scene that is there.
  v1::CreatePoseJobRequest Addition() {
    v1::CreatePoseJobRequest request = Request("more");
    request.mutable_pose_job()->set_scene("projects/default/scenes/garden-2");
    request.mutable_pose_job()->set_into("projects/default/scenes/garden");
    return request;
  }

  v1::CommitPosesRequest Commit(const v1::DesiredJob& grant, const std::string& worker = "w-1") {
    v1::CommitPosesRequest request;
    request.set_pose_job(grant.training_job());
    request.set_lease_epoch(grant.lease_epoch());
    request.set_worker_id(worker);
    request.mutable_report()->set_photographs(3);
    request.mutable_report()->set_posed(2);
    request.mutable_report()->add_warnings("little overlap");
    *request.mutable_report()->mutable_json() = server_.Put("{}");
    for (const char* path : {"images/a.jpg", "sparse/0/images.bin"}) {
      v1::SceneManifestEntry* file = request.add_files();
      file->set_path(path);
      *file->mutable_blob() = server_.Put(path);
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
  std::unique_ptr<Stub> stub_;
};

TEST_F(PoseJobTest, PhotographsBecomeASceneOnAWorkerThatHasColmap) {
  const auto created = Create(Request());
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->name(), "projects/default/poseJobs/fox");
  EXPECT_EQ(created->state(), v1::PoseJob::QUEUED);
  EXPECT_EQ(created->wait().reason(), "NO_WORKER");
  EXPECT_EQ(created->min_posed(), 0.9);
  EXPECT_EQ(created->film_frames(), 120u);

  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->training_job(), created->name());
  ASSERT_EQ(grant->pose().files_size(), 3);
  EXPECT_EQ(grant->pose().files(0).path(), "a.jpg");
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::RUNNING);
  report.mutable_pose_progress()->set_stage(3);
  report.mutable_pose_progress()->set_stages(7);
  report.mutable_pose_progress()->set_doing("matching");
  worker->SendReport(report);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(Get().state(), v1::PoseJob::RUNNING);
  EXPECT_EQ(Get().progress().doing(), "matching");
  EXPECT_EQ(Get().worker(), "workers/w-1");

  ASSERT_THAT(CommitPoses(Commit(*grant)), IsOk());
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(created->name()));
  const v1::PoseJob done = Get();
  EXPECT_EQ(done.state(), v1::PoseJob::SUCCEEDED);
  EXPECT_EQ(done.report().posed(), 2u);
  EXPECT_THAT(done.report().warnings(), ElementsAre("little overlap"));
  v1::GetSceneRequest scene_request;
  scene_request.set_name(done.scene());
  v1::Scene scene;
  ASSERT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::GetScene,
                                  scene_request, &scene),
              IsOk());
  EXPECT_EQ(scene.name(), "projects/default/scenes/garden");
  EXPECT_EQ(scene.files_size(), 2);
  EXPECT_EQ(server_.CreateJob(scene.name()).state(), v1::TrainingJob::QUEUED);
}

TEST_F(PoseJobTest, WatchShowsEveryStateTheStagesAndResumes) {
  ASSERT_THAT(Create(Request()), IsOk());
  v1::WatchPoseJobRequest request;
  request.set_name("projects/default/poseJobs/fox");
  grpc::ClientContext context;
  PrepareCall(absl::Seconds(20), "", &context);
  auto stream = stub_->WatchPoseJob(&context, request);
  v1::WatchPoseJobResponse event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.kind(), v1::WatchPoseJobResponse::SNAPSHOT);
  const std::string first_token = event.resume_token();
  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::RUNNING);
  report.mutable_pose_progress()->set_stage(3);
  report.mutable_pose_progress()->set_doing("matching");
  worker->SendReport(report);
  while (event.pose_job().progress().doing() != "matching") ASSERT_TRUE(stream->Read(&event));
  ASSERT_THAT(CommitPoses(Commit(*grant)), IsOk());
  while (stream->Read(&event)) {
  }
  EXPECT_THAT(FromGrpcStatus(stream->Finish()), IsOk());
  EXPECT_EQ(event.pose_job().state(), v1::PoseJob::SUCCEEDED);
  EXPECT_EQ(event.pose_job().files_size(), 0);
  EXPECT_EQ(event.pose_job().file_count(), 3u);

  request.set_resume_token(first_token);
  grpc::ClientContext again;
  PrepareCall(absl::Seconds(20), "", &again);
  auto resumed = stub_->WatchPoseJob(&again, request);
  std::vector<v1::PoseJob::State> states;
  while (resumed->Read(&event)) {
    if (states.empty() || states.back() != event.pose_job().state()) {
      states.push_back(event.pose_job().state());
    }
  }
  EXPECT_THAT(FromGrpcStatus(resumed->Finish()), IsOk());
  EXPECT_THAT(states, ElementsAre(v1::PoseJob::QUEUED, v1::PoseJob::PREPARING, v1::PoseJob::RUNNING,
                                  v1::PoseJob::SUCCEEDED));
}

TEST_F(PoseJobTest, WaitsWithTheReasonWhileNoWorkerHasColmap) {
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  worker.Hello({}, {"ngp"}, {"ffmpeg"});
  worker.Idle();
  ASSERT_TRUE(worker.WaitFor([](const auto&) { return true; }).has_value());
  ASSERT_THAT(Create(Request()), IsOk());
  EXPECT_EQ(Get().wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get().wait().message(), HasSubstr("COLMAP"));
  EXPECT_EQ(worker.WaitForOrder(v1::DesiredJob::POSE, absl::Milliseconds(200)), std::nullopt);
}

TEST_F(PoseJobTest, AdditionGetsTheScenesFilesAndKeepsItUntilItsEnd) {
  EXPECT_THAT(Create(Addition()), StatusIs(StatusCode::kNotFound));
  const std::string scene = server_.CreateScene("garden");
  v1::CreatePoseJobRequest request = Addition();
  request.mutable_pose_job()->set_camera(v1::PoseJob::PERSPECTIVE);
  ASSERT_THAT(Create(request), IsOk());
  EXPECT_EQ(Get("more").into(), scene);
  EXPECT_EQ(Get("more").camera(), v1::PoseJob::PERSPECTIVE);
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
  EXPECT_EQ(grant->pose().camera(), v1::PoseJob::PERSPECTIVE);
  v1::DeleteSceneRequest gone;
  gone.set_name(scene);
  google::protobuf::Empty ignored;
  const auto remove = [&] {
    return RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::DeleteScene, gone,
                               &ignored);
  };
  EXPECT_THAT(remove(), StatusIs(StatusCode::kFailedPrecondition, "poseJobs/more"));
  ASSERT_THAT(CommitPoses(Commit(*grant)), IsOk());
  EXPECT_EQ(Get("more").state(), v1::PoseJob::SUCCEEDED);
  EXPECT_THAT(remove(), IsOk());
}

TEST_F(PoseJobTest, CancelReachesTheWorkerAndItsLateCommitIsRefused) {
  ASSERT_THAT(Create(Request()), IsOk());
  auto worker = NewWorker();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(grant.has_value());
  v1::CancelPoseJobRequest request;
  request.set_name(grant->training_job());
  v1::PoseJob job;
  ASSERT_THAT(RpcTestServer::Call(*stub_, &Stub::CancelPoseJob, request, &job), IsOk());
  EXPECT_EQ(job.state(), v1::PoseJob::CANCELLING);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::CANCEL).has_value());
  EXPECT_THAT(CommitPoses(Commit(*grant)), StatusIs(StatusCode::kFailedPrecondition));
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::CANCELLED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(grant->training_job()));
  EXPECT_EQ(Get().state(), v1::PoseJob::CANCELLED);
  v1::DeletePoseJobRequest gone;
  gone.set_name(grant->training_job());
  google::protobuf::Empty ignored;
  EXPECT_THAT(RpcTestServer::Call(*stub_, &Stub::DeletePoseJob, gone, &ignored), IsOk());
  v1::ListPoseJobsResponse list;
  EXPECT_THAT(RpcTestServer::Call(*stub_, &Stub::ListPoseJobs, v1::ListPoseJobsRequest(), &list),
              IsOk());
  EXPECT_EQ(list.pose_jobs_size(), 0);
}

TEST_F(PoseJobTest, FailureNamesPhotographsAndKeepsTheReport) {
  ASSERT_THAT(Create(Request()), IsOk());
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
  ASSERT_TRUE(worker->WaitForAcknowledgement(grant->training_job()));
  const v1::PoseJob job = Get();
  EXPECT_EQ(job.state(), v1::PoseJob::FAILED);
  EXPECT_EQ(job.error().message(), "2 of 3 are posed");
  ASSERT_EQ(job.problems_size(), 1);
  EXPECT_EQ(job.problems(0).file(), "c.png");
  EXPECT_TRUE(job.report().has_json());
}

TEST_F(PoseJobTest, WrongNamesOfFilesAreRefusedOneByOne) {
  v1::CreatePoseJobRequest request = Request();
  const std::vector<std::string> names = {
      "a/b.jpg", "../a.jpg", ".a.jpg",        "a.tiff",       "a.txt",        "",
      "/a.jpg",  "a\n.jpg",  "masks/b/a.png", "masks/.a.png", "masks/a.webp", "Masks/a.png"};
  for (const std::string& name : names) {
    v1::SceneFile* file = request.mutable_pose_job()->add_files();
    file->set_path(name);
    *file->mutable_blob() = server_.Put("x");
  }
  std::vector<std::string> fields = WrongFields(request);
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_THAT(fields, testing::Contains("pose_job.files[" + std::to_string(3 + i) + "].path"))
        << names[i];
  }
  EXPECT_THAT(Create(request).status().message(), HasSubstr("save it as JPEG"));
}

TEST_F(PoseJobTest, MasksGoWithPhotographsAndNotAlone) {
  v1::CreatePoseJobRequest request = Request();
  v1::SceneFile* mask = request.mutable_pose_job()->add_files();
  mask->set_path("masks/a.png");
  *mask->mutable_blob() = server_.Put("mask");
  const auto created = Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->file_count(), 3U) << "without masks";
  // A worker of an earlier version would leave the masks out.
  auto older = NewWorker();
  ASSERT_TRUE(older->WaitFor([](const auto&) { return true; }).has_value());
  EXPECT_EQ(Get().wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get().wait().message(), HasSubstr("reads their masks"));
  auto newer = NewWorker("w-2", {"colmap", "pose-options", "pose-masks"});
  EXPECT_TRUE(newer->WaitForOrder(v1::DesiredJob::POSE).has_value());
  v1::CreatePoseJobRequest alone = request;
  alone.mutable_pose_job()->mutable_files()->DeleteSubrange(0, 3);
  EXPECT_THAT(WrongFields(alone), testing::Contains("pose_job.files"));
}

TEST_F(PoseJobTest, HostileRequestsAreRefusedWithTheirField) {
  const std::vector<std::pair<std::string, std::function<void(v1::CreatePoseJobRequest*)>>> cases =
      {{"pose_job.files", [](auto* r) { r->mutable_pose_job()->clear_files(); }},
       {"pose_job.files",
        [](auto* r) {
          for (int i = 0; i < 10001; ++i) r->mutable_pose_job()->add_files()->set_path("a.jpg");
        }},
       {"pose_job.files[3].path",
        [](auto* r) { *r->mutable_pose_job()->add_files() = r->pose_job().files(0); }},
       {"pose_job.files[0].blob.sha256",
        [](auto* r) {
          r->mutable_pose_job()->mutable_files(0)->mutable_blob()->set_sha256("no digest");
        }},
       {"pose_job.files[0].blob.size_bytes",
        [](auto* r) {
          r->mutable_pose_job()->mutable_files(0)->mutable_blob()->set_size_bytes(-1);
        }},
       {"pose_job.scene", [](auto* r) { r->mutable_pose_job()->set_scene("garden"); }},
       {"pose_job.scene",
        [](auto* r) { r->mutable_pose_job()->set_scene("projects/lab/scenes/garden"); }},
       {"pose_job.min_posed", [](auto* r) { r->mutable_pose_job()->set_min_posed(-0.1); }},
       {"pose_job.min_posed", [](auto* r) { r->mutable_pose_job()->set_min_posed(std::nan("")); }},
       {"pose_job.film_frames", [](auto* r) { r->mutable_pose_job()->set_film_frames(1u << 31); }},
       {"pose_job.film_frames",
        [](auto* r) {
          r->mutable_pose_job()->set_film_frames(2000);
          for (const char* name : {"f.mp4", "g.mp4", "h.mp4"}) {
            v1::SceneFile* film = r->mutable_pose_job()->add_files();
            *film = r->pose_job().files(0);
            film->set_path(name);
          }
        }},
       {"pose_job.into", [](auto* r) { r->mutable_pose_job()->set_into("garden"); }},
       {"pose_job.into",
        [](auto* r) { r->mutable_pose_job()->set_into("projects/lab/scenes/garden"); }},
       {"pose_job.camera",
        [](auto* r) { r->mutable_pose_job()->set_camera(static_cast<v1::PoseJob::Camera>(7)); }},
       {"pose_job.camera",
        [](auto* r) {
          r->mutable_pose_job()->set_into("projects/default/scenes/old");
          r->mutable_pose_job()->set_camera(v1::PoseJob::EQUIRECTANGULAR);
        }},
       {"pose_job.mask_below_degrees",
        [](auto* r) { r->mutable_pose_job()->set_mask_below_degrees(91); }},
       {"pose_job.mask_below_degrees",
        [](auto* r) { r->mutable_pose_job()->set_mask_below_degrees(std::nan("")); }},
       {"pose_job.mask_below_degrees",
        [](auto* r) {
          r->mutable_pose_job()->set_camera(v1::PoseJob::PERSPECTIVE);
          r->mutable_pose_job()->set_mask_below_degrees(60);
        }},
       {"pose_job.priority", [](auto* r) { r->mutable_pose_job()->set_priority(101); }},
       {"pose_job.labels", [](auto* r) { (*r->mutable_pose_job()->mutable_labels())["A B"] = ""; }},
       {"pose_job.display_name", [](auto* r) { r->mutable_pose_job()->set_display_name("\x1b"); }},
       {"pose_job_id", [](auto* r) { r->set_pose_job_id("-"); }},
       {"request_id", [](auto* r) { r->set_request_id("7"); }}};
  for (const auto& [field, spoil] : cases) {
    v1::CreatePoseJobRequest request = Request();
    spoil(&request);
    EXPECT_THAT(WrongFields(request), ElementsAre(field));
  }
  v1::CreatePoseJobRequest unknown = Request();
  unknown.mutable_pose_job()->mutable_files(0)->mutable_blob()->set_sha256(std::string(64, 'a'));
  const absl::Status missing = Create(unknown).status();
  EXPECT_EQ(GetReason(missing)->reason, reason::kBlobsMissing);
}

TEST_F(PoseJobTest, WorkersCommitIsCheckedToo) {
  ASSERT_THAT(Create(Request()), IsOk());
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
  other.set_pose_job("projects/default/trainingJobs/fox");
  EXPECT_THAT(CommitPoses(other), StatusIs(StatusCode::kInvalidArgument));
  v1::CommitPosesRequest many = Commit(*grant);
  for (int i = 0; i < 200; ++i) many.mutable_report()->add_again(std::string(5000, 'x'));
  many.mutable_report()->set_parallax_degrees(std::nan(""));
  ASSERT_THAT(CommitPoses(many), IsOk());
  EXPECT_EQ(Get().report().again_size(), 100);
  EXPECT_EQ(Get().report().again(0).size(), 1024u);
  EXPECT_EQ(Get().report().parallax_degrees(), 0);
}

class PoseTrainingCallTest : public PoseJobTest {
 protected:
  v1::CreateTrainingJobRequest Training(
      const std::string& poses = "projects/default/poseJobs/fox") {
    v1::CreateTrainingJobRequest request;
    request.set_training_job_id("train");
    request.mutable_training_job()->set_pose_job(poses);
    request.mutable_training_job()->mutable_config()->set_steps(100);
    return request;
  }
  absl::StatusOr<v1::TrainingJob> CreateTraining(const v1::CreateTrainingJobRequest& request) {
    v1::TrainingJob job;
    const absl::Status status = RpcTestServer::Call(
        *server_.training_stub, &v1::TrainingService::Stub::CreateTrainingJob, request, &job);
    if (!status.ok()) return status;
    return job;
  }
};

TEST_F(PoseTrainingCallTest, TrainingWaitsForThePoseJobAndSaysHowFarThatIs) {
  ASSERT_THAT(Create(Request()), IsOk());
  const auto created = CreateTraining(Training());
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->state(), v1::TrainingJob::QUEUED);
  EXPECT_EQ(created->scene(), "projects/default/scenes/garden");
  EXPECT_EQ(created->pose_job(), "projects/default/poseJobs/fox");
  EXPECT_EQ(created->wait().reason(), "POSES");
  EXPECT_EQ(created->wait().message(), "pose job fox is QUEUED: no worker is connected");
  server_.Stop();
  server_.Start();
  stub_ = v1::PoseJobService::NewStub(server_.channel);

  auto worker = NewWorker();
  const auto poses = worker->WaitForOrder(v1::DesiredJob::POSE);
  ASSERT_TRUE(poses.has_value());
  v1::JobReport report = FakeWorker::Report(*poses, v1::JobReport::RUNNING);
  report.mutable_pose_progress()->set_stage(6);
  report.mutable_pose_progress()->set_stages(7);
  report.mutable_pose_progress()->set_doing("placing cameras");
  report.mutable_pose_progress()->set_done(12);
  report.mutable_pose_progress()->set_of(50);
  report.mutable_pose_progress()->set_eta_seconds(90);
  report.mutable_pose_progress()->set_matches_per_second(1e5);
  worker->SendReport(report);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(server_.GetJob(created->name()).wait().message(),
            "pose job fox is RUNNING: 6/7 placing cameras: 12 of 50, about 90 s left");
  EXPECT_EQ(Get().progress().eta_seconds(), 90);
  EXPECT_EQ(Get().progress().matches_per_second(), 1e5);
  ASSERT_THAT(CommitPoses(Commit(*poses)), IsOk());
  worker->SendReport(FakeWorker::Report(*poses, v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(poses->training_job()));
  worker->Idle();
  EXPECT_EQ(server_.GetJob(created->name()).wait().reason(), "POSES");
  server_.Tick();
  const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->training_job(), created->name());
  EXPECT_EQ(grant->files_size(), 2) << "the scene's";
}

TEST_F(PoseTrainingCallTest, SceneOrPoseJobAndOfThisProject) {
  ASSERT_THAT(Create(Request()), IsOk());
  const auto field_of = [&](const v1::CreateTrainingJobRequest& request) {
    const auto violations = GetFieldViolations(CreateTraining(request).status());
    return violations.size() == 1 ? violations[0].field : "";
  };
  v1::CreateTrainingJobRequest both = Training();
  both.mutable_training_job()->set_scene("projects/default/scenes/garden");
  EXPECT_EQ(field_of(both), "training_job.scene");
  EXPECT_EQ(field_of(Training("")), "training_job.scene");
  for (const char* name : {"fox", "projects/lab/poseJobs/fox", "projects/default/scenes/fox",
                           "projects/default/poseJobs/", "projects/default/poseJobs/fox/"}) {
    EXPECT_EQ(field_of(Training(name)), "training_job.pose_job") << name;
  }
  EXPECT_THAT(CreateTraining(Training("projects/default/poseJobs/none")),
              StatusIs(StatusCode::kNotFound));
  v1::CreateTrainingJobRequest asked = Training();
  asked.set_validate_only(true);
  ASSERT_THAT(CreateTraining(asked), IsOk());
  EXPECT_EQ(CreateTraining(asked)->wait().reason(), "POSES");
}

}  // namespace
}  // namespace nerf
