// Export jobs through the whole server: a client and a fake worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "nerf/v1/export_job_service.grpc.pb.h"
#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using Stub = v1::ExportJobService::Stub;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ExportJobTest : public testing::Test {
 protected:
  // A finished training whose worker is left.
  void SetUp() override {
    stub_ = v1::ExportJobService::NewStub(server_.channel);
    const v1::TrainingJob job = server_.CreateJob(server_.CreateScene(), "mic");
    worker_ = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, "w-1");
    worker_->Hello({}, {"ngp"}, {"export"});
    const auto grant = worker_->WaitForOrder(v1::DesiredJob::TRAIN);
    ASSERT_TRUE(grant.has_value());
    ASSERT_THAT(worker_->Commit(CheckpointRequest(server_, *grant, 100)), IsOk());
    worker_->SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
    ASSERT_TRUE(worker_->WaitForAcknowledgement(job.name()));
  }

  static v1::CreateExportJobRequest Request(const std::string& id = "mesh") {
    v1::CreateExportJobRequest request;
    request.set_export_job_id(id);
    request.mutable_export_job()->set_checkpoint("projects/default/trainingJobs/mic/checkpoints/-");
    request.mutable_export_job()->set_format(v1::ExportJob::GLB);
    return request;
  }
  absl::StatusOr<v1::ExportJob> Create(const v1::CreateExportJobRequest& request) {
    v1::ExportJob job;
    const absl::Status status = RpcTestServer::Call(*stub_, &Stub::CreateExportJob, request, &job);
    if (!status.ok()) return status;
    return job;
  }
  v1::ExportJob Get(const std::string& id = "mesh") {
    v1::GetExportJobRequest request;
    request.set_name("projects/default/exportJobs/" + id);
    v1::ExportJob job;
    EXPECT_THAT(RpcTestServer::Call(*stub_, &Stub::GetExportJob, request, &job), IsOk());
    return job;
  }
  std::vector<std::string> WrongFields(const v1::CreateExportJobRequest& request) {
    std::vector<std::string> fields;
    for (const auto& violation : GetFieldViolations(Create(request).status())) {
      fields.push_back(violation.field);
    }
    return fields;
  }
  v1::JobReport Made(const v1::DesiredJob& grant, const std::string& name = "mesh.glb") {
    v1::JobReport report = FakeWorker::Report(grant, v1::JobReport::SUCCEEDED);
    v1::ExportResult* result = report.mutable_export_result();
    result->set_triangles(12);
    result->set_axes("z up, right-handed");
    result->add_files()->set_name(name);
    *result->mutable_files(0)->mutable_blob() = server_.Put("a mesh");
    return report;
  }

  RpcTestServer server_;
  std::unique_ptr<Stub> stub_;
  std::unique_ptr<FakeWorker> worker_;
};

TEST_F(ExportJobTest, WorkerMakesAFileOfTheNewestCheckpoint) {
  v1::CreateExportJobRequest request = Request();
  request.mutable_export_job()->set_frame(v1::ExportJob::BLENDER);
  (*request.mutable_export_job()->mutable_labels())["for"] = "print";
  const auto created = Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->name(), "projects/default/exportJobs/mesh");
  EXPECT_EQ(created->checkpoint(), "projects/default/trainingJobs/mic/checkpoints/100");
  EXPECT_EQ(created->triangles(), 200'000u);
  EXPECT_EQ(created->expected_bytes(), 28 * 200'000);
  EXPECT_EQ(created->labels().at("for"), "print");

  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->training_job(), created->name());
  EXPECT_EQ(grant->model_export().product().frame(), v1::ExportJob::BLENDER);
  EXPECT_EQ(grant->model_export().product().resolution(), 256u);
  EXPECT_EQ(grant->model_export().file().sha256(), server_.Put("model 100").sha256());
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::RUNNING);
  report.mutable_export_progress()->set_step("surface");
  report.mutable_export_progress()->set_share(0.25);
  report.mutable_export_progress()->set_max_bytes(7e6);
  worker_->SendReport(report);
  ASSERT_TRUE(worker_->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(Get().progress().step(), "surface");
  EXPECT_EQ(Get().progress().share(), 0.25);
  EXPECT_EQ(Get().max_bytes(), 7e6) << "by what the worker has read";
  EXPECT_EQ(Get().expected_bytes(), 28 * 200'000);

  worker_->SendReport(Made(*grant));
  ASSERT_TRUE(worker_->WaitForAcknowledgement(created->name()));
  const v1::ExportJob done = Get();
  EXPECT_EQ(done.state(), v1::ExportJob::SUCCEEDED);
  ASSERT_EQ(done.result().files_size(), 1);
  EXPECT_EQ(done.result().files(0).name(), "mesh.glb");
  EXPECT_EQ(done.result().files(0).blob().sha256(), server_.Put("a mesh").sha256());
  EXPECT_EQ(done.result().triangles(), 12u);
  EXPECT_EQ(done.result().axes(), "z up, right-handed");
}

TEST_F(ExportJobTest, BoxThatIsKeptWithTheJobIsExportedUnlessARequestSaysOtherwise) {
  v1::UpdateTrainingJobRequest update;
  update.mutable_training_job()->set_name("projects/default/trainingJobs/mic");
  for (int axis = 0; axis < 3; ++axis) {
    update.mutable_training_job()->mutable_crop()->add_center(0);
    update.mutable_training_job()->mutable_crop()->add_size(2);
  }
  update.mutable_update_mask()->add_paths("crop");
  v1::TrainingJob job;
  ASSERT_THAT(RpcTestServer::Call(*server_.training_stub,
                                  &v1::TrainingService::Stub::UpdateTrainingJob, update, &job),
              IsOk());
  v1::CreateExportJobRequest request = Request();
  request.mutable_export_job()->set_whole(true);
  EXPECT_FALSE(Create(request)->has_box());
  *request.mutable_export_job()->mutable_box() = job.crop();
  EXPECT_THAT(WrongFields(request), ElementsAre("export_job.whole"));
  request = Request("cameras");
  request.mutable_export_job()->set_format(v1::ExportJob::CAMERAS);
  EXPECT_FALSE(Create(request)->has_box());
  request.mutable_export_job()->set_whole(true);
  EXPECT_THAT(WrongFields(request), ElementsAre("export_job.whole"));
  request = Request("own");
  *request.mutable_export_job()->mutable_box() = job.crop();
  request.mutable_export_job()->mutable_box()->set_size(0, 1);
  EXPECT_EQ(Create(request)->box().size(0), 1);
  request = Request("cut");
  request.set_request_id("0b9a0a4e-3b6e-4a4f-9d07-6f1f4b0c1d2e");
  request.mutable_export_job()->set_priority(9);
  EXPECT_EQ(Create(request)->box().size(0), 2);
  // Of the first request, also where the box has changed meanwhile.
  update.mutable_training_job()->clear_crop();
  ASSERT_THAT(RpcTestServer::Call(*server_.training_stub,
                                  &v1::TrainingService::Stub::UpdateTrainingJob, update, &job),
              IsOk());
  EXPECT_EQ(Create(request)->box().size(0), 2);
}

TEST_F(ExportJobTest, ValidateOnlyTellsTheSizeAndWhyItWouldWaitAndMakesNothing) {
  v1::CreateExportJobRequest request = Request();
  request.set_validate_only(true);
  request.mutable_export_job()->set_format(v1::ExportJob::PLY);
  request.mutable_export_job()->set_triangles(1000);
  const auto checked = Create(request);
  ASSERT_THAT(checked, IsOk());
  EXPECT_EQ(checked->expected_bytes(), 26'500);
  v1::ListExportJobsResponse list;
  ASSERT_THAT(
      RpcTestServer::Call(*stub_, &Stub::ListExportJobs, v1::ListExportJobsRequest(), &list),
      IsOk());
  EXPECT_EQ(list.export_jobs_size(), 0);
  worker_.reset();
  const auto waits = [&] { return Create(request)->wait().reason() == "NO_WORKER"; };
  for (int i = 0; i < 100 && !waits(); ++i) absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(waits());
}

TEST_F(ExportJobTest, BoundsFollowFromTheRequestUntilTheModelIsRead) {
  v1::CreateExportJobRequest request = Request();
  request.set_validate_only(true);
  v1::ExportJob& job = *request.mutable_export_job();
  const auto max_bytes = [&](v1::ExportJob::Format format, uint32_t resolution) {
    job.set_format(format);
    job.set_resolution(resolution);
    return Create(request)->max_bytes();
  };
  const double points = max_bytes(v1::ExportJob::POINTS, 64);
  EXPECT_GT(points, 27.0 * 64 * 64 * 64);
  EXPECT_GT(max_bytes(v1::ExportJob::SPLATS, 64), 2 * points);
  EXPECT_GT(max_bytes(v1::ExportJob::VDB, 64), 16.0 * 64 * 64 * 64);
  EXPECT_GT(max_bytes(v1::ExportJob::NVDB, 1024), max_bytes(v1::ExportJob::NVDB, 64));
  EXPECT_EQ(max_bytes(v1::ExportJob::POINTS, 1024), max_bytes(v1::ExportJob::POINTS, 1000))
      << "their views have so many pixels";
  for (int axis = 0; axis < 3; ++axis) {
    job.mutable_box()->add_center(0);
    job.mutable_box()->add_size(axis == 0 ? 1 : 0.1);
  }
  EXPECT_LT(max_bytes(v1::ExportJob::POINTS, 64), points / 20);
  job.set_baked(true);
  EXPECT_GT(max_bytes(v1::ExportJob::VIEWER, 0), 25e6);
  EXPECT_EQ(Create(request)->expected_bytes(), 0);
}

TEST_F(ExportJobTest, SizeOfAViewerFollowsFromTheModelsTensors) {
  const v1::TrainingJob trained = server_.CreateJob(server_.CreateScene(), "lego");
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  v1::CommitCheckpointRequest commit = CheckpointRequest(server_, *grant, 100);
  v1::TensorSpec& grid = *commit.add_tensors();
  grid.set_name("occupancy.bits");
  grid.set_dtype("U8");
  for (const uint32_t size : {1u, 128u, 128u, 16u}) grid.add_shape(size);
  ASSERT_THAT(worker_->Commit(commit), IsOk());
  v1::CreateExportJobRequest request = Request("viewer");
  v1::ExportJob& job = *request.mutable_export_job();
  job.set_checkpoint(trained.name() + "/checkpoints/-");
  job.set_format(v1::ExportJob::VIEWER);
  const auto created = Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_NEAR(created->expected_bytes(), 9.18e6, 0.05e6) << "a table of 2^17, a level of 128^3";
  EXPECT_EQ(Get("viewer").expected_bytes(), created->expected_bytes());
  request = Request("cameras");
  request.mutable_export_job()->set_checkpoint(trained.name() + "/checkpoints/-");
  request.mutable_export_job()->set_format(v1::ExportJob::CAMERAS);
  EXPECT_GT(Create(request)->expected_bytes(), 0);
  v1::CommitCheckpointRequest wrong = CheckpointRequest(server_, *grant, 200);
  *wrong.add_tensors() = grid;
  wrong.mutable_tensors(0)->set_shape(0, 4'000'000'000);  // levels
  ASSERT_THAT(worker_->Commit(wrong), IsOk());
  request = Request("wrong");
  request.mutable_export_job()->set_checkpoint(trained.name() + "/checkpoints/-");
  request.mutable_export_job()->set_format(v1::ExportJob::VIEWER);
  EXPECT_EQ(Create(request)->expected_bytes(), 0) << "no model has so many";
}

TEST_F(ExportJobTest, WhatAnOlderWorkerLacksWaitsForANewerOne) {
  v1::CreateExportJobRequest volume = Request("volume"), textured = Request("textured");
  volume.mutable_export_job()->set_format(v1::ExportJob::VDB);
  textured.mutable_export_job()->set_texture(2048);
  EXPECT_EQ(Create(textured)->expected_bytes(), 0) << "not known before";
  ASSERT_THAT(Create(volume), IsOk());
  for (const char* const id : {"volume", "textured"}) {
    EXPECT_EQ(Get(id).wait().reason(), "NO_CAPABLE_WORKER");
    EXPECT_THAT(Get(id).wait().message(), HasSubstr("older versions have no"));
  }
  ASSERT_THAT(Create(Request()), IsOk());
  const auto plain = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->training_job(), "projects/default/exportJobs/mesh");

  FakeWorker newer(server_.channel, RpcTestServer::kToken, "w-2");
  newer.Hello({}, {"ngp"}, {"export", "export-2"});
  const auto grant = newer.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->training_job(), "projects/default/exportJobs/textured");
  EXPECT_EQ(grant->model_export().product().texture(), 2048u);
}

TEST_F(ExportJobTest, WorkersAreListedWithTheNameOfTheirJob) {
  ASSERT_THAT(Create(Request()), IsOk());
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  worker_->SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING));
  const auto listed = [&] {
    v1::ListWorkersResponse workers;
    EXPECT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::ListWorkers,
                                    v1::ListWorkersRequest(), &workers),
                IsOk());
    return workers.workers_size() == 1 ? workers.workers(0).training_job() : "";
  };
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return !listed().empty(); }));
  EXPECT_EQ(listed(), "projects/default/exportJobs/mesh");
}

TEST_F(ExportJobTest, PathsAndViewsGoThroughKeyframesOnWorkersThatAnnounceThem) {
  v1::CreateExportJobRequest request = Request("path");
  v1::ExportJob& job = *request.mutable_export_job();
  job.set_format(v1::ExportJob::NERFSTUDIO_PATH);
  v1::KeyframePath& path = *job.mutable_path()->mutable_keyframes();
  path.set_frames(60);
  for (int i = 0; i < 16; ++i) path.add_keyframes();
  for (v1::Keyframe& keyframe : *path.mutable_keyframes()) {
    keyframe.set_fov_degrees(50);
    for (int i = 0; i < 16; ++i) keyframe.add_transform_matrix(i % 5 == 0);
  }
  FakeWorker older(server_.channel, RpcTestServer::kToken, "w-2");
  older.Hello({}, {"ngp"}, {"export", "export-2"});
  const auto created = Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_GT(created->expected_bytes(), 60 * 200);
  EXPECT_EQ(created->resolution(), 0u);
  EXPECT_EQ(Get("path").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("path").wait().message(), HasSubstr("camera paths"));
  EXPECT_EQ(Get("path").path().keyframes().keyframes_size(), 16);
  v1::ListExportJobsResponse list;
  ASSERT_THAT(
      RpcTestServer::Call(*stub_, &Stub::ListExportJobs, v1::ListExportJobsRequest(), &list),
      IsOk());
  ASSERT_EQ(list.export_jobs_size(), 1);
  EXPECT_FALSE(list.export_jobs(0).has_path());
  EXPECT_EQ(list.export_jobs(0).expected_bytes(), created->expected_bytes());

  FakeWorker newer(server_.channel, RpcTestServer::kToken, "w-3");
  newer.Hello({}, {"ngp"}, {"export", "export-2", "export-3"});
  const auto grant = newer.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->model_export().product().path().keyframes().frames(), 60u);

  request = Request("baked");
  request.mutable_export_job()->set_format(v1::ExportJob::VIEWER);
  request.mutable_export_job()->set_baked(true);
  EXPECT_TRUE(Create(request)->baked());
  EXPECT_EQ(Get("baked").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("baked").wait().message(), HasSubstr("no baked viewers"));
  FakeWorker newest(server_.channel, RpcTestServer::kToken, "w-4");
  newest.Hello({}, {"ngp"}, {"export", "export-2", "export-3", "export-4"});
  const auto viewer = newest.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(viewer.has_value());
  EXPECT_TRUE(viewer->model_export().product().baked());

  request = Request("nanovdb");
  request.mutable_export_job()->set_format(v1::ExportJob::NVDB);
  ASSERT_THAT(Create(request), IsOk());
  EXPECT_EQ(Get("nanovdb").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("nanovdb").wait().message(), HasSubstr("built without libnanovdb-dev"));
  FakeWorker built(server_.channel, RpcTestServer::kToken, "w-5");
  built.Hello({}, {"ngp"}, {"export", "export-2", "export-3", "export-4", "export-nvdb"});
  const auto volume = built.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(volume.has_value());
  EXPECT_EQ(volume->model_export().product().format(), v1::ExportJob::NVDB);

  request = Request("views");
  request.mutable_export_job()->set_format(v1::ExportJob::VIEWS);
  request.set_validate_only(true);
  EXPECT_EQ(Create(request)->expected_bytes(), 0) << "of photographs it is not known";
  v1::Camera& camera =
      *request.mutable_export_job()->mutable_path()->mutable_cameras()->add_cameras();
  for (int i = 0; i < 16; ++i) camera.add_transform_matrix(i % 5 == 0);
  camera.set_width(100);
  camera.set_height(50);
  camera.set_fl_x(100);
  EXPECT_EQ(Create(request)->expected_bytes(), 25'000);
  EXPECT_GT(Create(request)->max_bytes(), 35'000);
}

TEST_F(ExportJobTest, EveryWrongFieldIsNamedAtOnce) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  v1::CreateExportJobRequest request;
  EXPECT_THAT(WrongFields(request), ElementsAre("export_job.source", "export_job.format"));
  request = Request("Not an id");
  request.mutable_export_job()->set_priority(101);
  request.mutable_export_job()->set_resolution(7);
  request.mutable_export_job()->set_triangles(1'000'000'001);
  EXPECT_THAT(WrongFields(request), ElementsAre("export_job_id", "export_job.priority",
                                                "export_job.resolution", "export_job.triangles"));
  struct Box {
    std::vector<double> center, size;
    const char* wrong;
  };
  for (const Box& box :
       {Box{{}, {}, "center"}, Box{{0, 0}, {1, 1, 1}, "center"},
        Box{{0, 0, 0, 0}, {1, 1, 1}, "center"}, Box{{0, kNan, 0}, {1, 1, 1}, "center[1]"},
        Box{{kInfinity, 0, 0}, {1, 1, 1}, "center[0]"}, Box{{1e10, 0, 0}, {1, 1, 1}, "center[0]"},
        Box{{0, 0, 0}, {1, 1}, "size"}, Box{{0, 0, 0}, {1, 0, 1}, "size[1]"},
        Box{{0, 0, 0}, {1, -1, 1}, "size[1]"}, Box{{0, 0, 0}, {1, 1, kNan}, "size[2]"},
        Box{{0, 0, 0}, {1, kInfinity, 1}, "size[1]"}, Box{{1e9, 0, 0}, {1, 1, 1}, "size[0]"}}) {
    request = Request();
    *request.mutable_export_job()->mutable_box()->mutable_center() = {box.center.begin(),
                                                                      box.center.end()};
    *request.mutable_export_job()->mutable_box()->mutable_size() = {box.size.begin(),
                                                                    box.size.end()};
    EXPECT_THAT(WrongFields(request), Contains(std::string("export_job.box.") + box.wrong));
  }
}

TEST_F(ExportJobTest, WhatAFormatDoesNotHaveIsRefused) {
  const auto wrong = [&](v1::ExportJob::Format format, auto set) {
    v1::CreateExportJobRequest request = Request();
    request.mutable_export_job()->set_format(format);
    set(*request.mutable_export_job());
    return WrongFields(request);
  };
  const auto box = [](v1::ExportJob& job) {
    for (int i = 0; i < 3; ++i) {
      job.mutable_box()->add_center(0);
      job.mutable_box()->add_size(1);
    }
  };
  EXPECT_THAT(wrong(v1::ExportJob::VIEWER, box), testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportJob::VIEWER,
                    [&](auto& job) {
                      box(job);
                      for (int i = 0; i < 4; ++i) job.mutable_box()->add_turn(i);
                    }),
              ElementsAre("export_job.box.turn"));
  EXPECT_THAT(wrong(v1::ExportJob::CAMERAS, box), ElementsAre("export_job.box"));
  EXPECT_THAT(wrong(v1::ExportJob::VDB, box), testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportJob::VDB, [](auto& job) { job.set_triangles(5); }),
              ElementsAre("export_job.triangles"));
  EXPECT_THAT(wrong(v1::ExportJob::GLB, [](auto& job) { job.set_baked(true); }),
              ElementsAre("export_job.baked"));
  EXPECT_THAT(wrong(v1::ExportJob::PLY, [](auto& job) { job.set_texture(1024); }),
              ElementsAre("export_job.texture"));
  for (const uint32_t texture : {1u, 63u, 8193u, 4'000'000'000u}) {
    EXPECT_THAT(wrong(v1::ExportJob::GLB, [&](auto& job) { job.set_texture(texture); }),
                ElementsAre("export_job.texture"));
  }
  EXPECT_THAT(wrong(v1::ExportJob::POINTS, [](auto& job) { job.set_triangles(5); }),
              ElementsAre("export_job.triangles"));
  EXPECT_THAT(wrong(v1::ExportJob::VIEWER, [](auto& job) { job.set_resolution(64); }),
              ElementsAre("export_job.resolution"));
  EXPECT_THAT(wrong(v1::ExportJob::VIEWER, [](auto& job) { job.set_frame(v1::ExportJob::UNITY); }),
              ElementsAre("export_job.frame"));
  EXPECT_THAT(wrong(v1::ExportJob::CAMERAS, [](auto& job) { job.set_frame(v1::ExportJob::UNITY); }),
              ElementsAre("export_job.frame"));
  EXPECT_THAT(wrong(v1::ExportJob::GLB,
                    [](auto& job) { job.set_frame(static_cast<v1::ExportJob::Frame>(77)); }),
              ElementsAre("export_job.frame"));
  for (const auto format : {v1::ExportJob::NERFSTUDIO_PATH, v1::ExportJob::NGP_PATH}) {
    EXPECT_THAT(wrong(format, [](auto&) {}), testing::IsEmpty());
    EXPECT_THAT(wrong(format, box), ElementsAre("export_job.box"));
    EXPECT_THAT(wrong(format, [](auto& job) { job.set_whole(true); }),
                ElementsAre("export_job.whole"));
    EXPECT_THAT(wrong(format, [](auto& job) { job.set_frame(v1::ExportJob::BLENDER); }),
                ElementsAre("export_job.frame"));
    EXPECT_THAT(wrong(format, [](auto& job) { job.set_resolution(64); }),
                ElementsAre("export_job.resolution"));
    EXPECT_THAT(
        wrong(format, [](auto& job) { job.mutable_path()->mutable_scene()->set_frames(9); }),
        ElementsAre("export_job.path.scene"));
    EXPECT_THAT(wrong(format, [](auto& job) { job.mutable_path()->mutable_keyframes(); }),
                ElementsAre("export_job.path.keyframes.frames", "export_job.path.keyframes"));
    EXPECT_THAT(wrong(format, [](auto& job) { job.mutable_path(); }),
                ElementsAre("export_job.path"));
    EXPECT_THAT(wrong(format,
                      [](auto& job) {
                        auto& path = *job.mutable_path()->mutable_keyframes();
                        path.set_frames(4'000);
                        for (int i = 0; i < 15; ++i) path.mutable_keyframes()->Add();
                        path.mutable_keyframes(2)->set_fov_degrees(kNan);
                      }),
                Contains("export_job.path.keyframes[2].fov_degrees"));
  }
  EXPECT_THAT(wrong(v1::ExportJob::VIEWS, box), testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportJob::VIEWS, [](auto& job) { job.set_frame(v1::ExportJob::UNREAL); }),
              ElementsAre("export_job.frame"));
  EXPECT_THAT(wrong(v1::ExportJob::NVDB, [](auto& job) { job.set_resolution(64); }),
              testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportJob::GLB,
                    [](auto& job) { job.mutable_path()->mutable_cameras()->add_cameras(); }),
              ElementsAre("export_job.path.cameras[0]", "export_job.path"));
  EXPECT_THAT(wrong(static_cast<v1::ExportJob::Format>(77), [](auto&) {}),
              ElementsAre("export_job.format"));
}

TEST_F(ExportJobTest, SourceThatIsNotThereOrOfAnotherProjectIsRefused) {
  v1::CreateExportJobRequest request = Request();
  request.mutable_export_job()->set_model("projects/default/models/no");
  EXPECT_EQ(Create(request).status().code(), StatusCode::kNotFound);
  request.mutable_export_job()->set_checkpoint("projects/default/trainingJobs/mic/checkpoints/7");
  EXPECT_EQ(Create(request).status().code(), StatusCode::kNotFound);
  request.mutable_export_job()->set_checkpoint("../../etc/passwd");
  EXPECT_THAT(WrongFields(request), ElementsAre("export_job.checkpoint"));
  request.mutable_export_job()->set_model("projects/other/models/m");
  EXPECT_THAT(WrongFields(request), ElementsAre("export_job.source"));
}

TEST_F(ExportJobTest, NamesOfFilesWithFoldersEndTheWorkersStream) {
  ASSERT_THAT(Create(Request()), IsOk());
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  worker_->SendReport(Made(*grant, "../mesh.glb"));
  EXPECT_EQ(worker_->WaitForEnd().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Get().has_result());
}

TEST_F(ExportJobTest, CancelReachesTheWorkerAndTheJobEndsOnce) {
  ASSERT_THAT(Create(Request()), IsOk());
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  v1::CancelExportJobRequest cancel;
  cancel.set_name(grant->training_job());
  v1::ExportJob job;
  ASSERT_THAT(RpcTestServer::Call(*stub_, &Stub::CancelExportJob, cancel, &job), IsOk());
  EXPECT_EQ(job.state(), v1::ExportJob::CANCELLING);
  ASSERT_TRUE(worker_->WaitForOrder(v1::DesiredJob::CANCEL).has_value());
  worker_->SendReport(FakeWorker::Report(*grant, v1::JobReport::CANCELLED));
  ASSERT_TRUE(worker_->WaitForAcknowledgement(grant->training_job()));
  EXPECT_EQ(Get().state(), v1::ExportJob::CANCELLED);
  v1::DeleteExportJobRequest remove;
  remove.set_name(grant->training_job());
  google::protobuf::Empty empty;
  ASSERT_THAT(RpcTestServer::Call(*stub_, &Stub::DeleteExportJob, remove, &empty), IsOk());
  EXPECT_EQ(RpcTestServer::Call(*stub_, &Stub::DeleteExportJob, remove, &empty).code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace nerf
