// Export jobs through the whole server: a client and a fake worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/error_reason.h"
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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ExportJobTest : public testing::Test {
 protected:
  using Jobs = RpcTestServer::Jobs;

  // A finished training whose worker is left.
  void SetUp() override {
    const v1::Job job = server_.CreateJob(server_.CreateScene(), "mic");
    worker_ = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, "w-1");
    worker_->Hello({}, {"ngp"}, {"export"});
    const auto grant = worker_->WaitForOrder(v1::DesiredJob::TRAIN);
    ASSERT_TRUE(grant.has_value());
    ASSERT_THAT(worker_->Commit(CheckpointRequest(server_, *grant, 100)), IsOk());
    worker_->SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
    ASSERT_TRUE(worker_->WaitForAcknowledgement(job.name()));
  }

  static v1::ExportSpec& Spec(v1::CreateJobRequest& request) {
    return *request.mutable_job()->mutable_export_();
  }
  static v1::CreateJobRequest Request(const std::string& id = "mesh") {
    v1::CreateJobRequest request;
    request.set_job_id(id);
    Spec(request).set_checkpoint("projects/default/jobs/mic/checkpoints/-");
    Spec(request).set_format(v1::ExportSpec::GLB);
    return request;
  }
  v1::Job Get(const std::string& id = "mesh") {
    return server_.GetJob("projects/default/jobs/" + id);
  }
  v1::JobReport Made(const v1::DesiredJob& grant, const std::string& name = "mesh.glb") {
    v1::JobReport report = FakeWorker::Report(grant, v1::JobReport::SUCCEEDED);
    v1::ExportResult* result = report.mutable_export_result();
    result->set_triangles(12);
    result->set_axes("z up, right-handed");
    result->add_files()->set_name(name);
    *result->mutable_files(0)->mutable_blob() = server_.Make("a mesh");
    return report;
  }

  RpcTestServer server_;
  std::unique_ptr<FakeWorker> worker_;
};

TEST_F(ExportJobTest, WorkerMakesAFileOfTheNewestCheckpoint) {
  v1::CreateJobRequest request = Request();
  Spec(request).set_frame(v1::ExportSpec::BLENDER);
  (*request.mutable_job()->mutable_labels())["for"] = "print";
  const auto created = server_.Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->name(), "projects/default/jobs/mesh");
  EXPECT_EQ(created->export_().checkpoint(), "projects/default/jobs/mic/checkpoints/100");
  EXPECT_EQ(created->export_().triangles(), 200'000u);
  EXPECT_EQ(created->export_status().expected_bytes(), 28 * 200'000);
  EXPECT_EQ(created->labels().at("for"), "print");

  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), created->name());
  EXPECT_EQ(grant->model_export().product().frame(), v1::ExportSpec::BLENDER);
  EXPECT_EQ(grant->model_export().product().resolution(), 256u);
  EXPECT_EQ(grant->model_export().file().sha256(), server_.Put("model 100").sha256());
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::RUNNING);
  report.mutable_export_progress()->set_step("surface");
  report.mutable_export_progress()->set_share(0.25);
  report.mutable_export_progress()->set_max_bytes(7e6);
  worker_->SendReport(report);
  ASSERT_TRUE(worker_->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(Get().export_status().progress().step(), "surface");
  EXPECT_EQ(Get().export_status().progress().share(), 0.25);
  EXPECT_EQ(Get().export_status().max_bytes(), 7e6) << "by what the worker has read";
  EXPECT_EQ(Get().export_status().expected_bytes(), 28 * 200'000);

  worker_->SendReport(Made(*grant));
  ASSERT_TRUE(worker_->WaitForAcknowledgement(created->name()));
  const v1::Job done = Get();
  EXPECT_EQ(done.state(), v1::Job::SUCCEEDED);
  ASSERT_EQ(done.export_status().result().files_size(), 1);
  EXPECT_EQ(done.export_status().result().files(0).name(), "mesh.glb");
  EXPECT_EQ(done.export_status().result().files(0).blob().sha256(), server_.Put("a mesh").sha256());
  EXPECT_EQ(done.export_status().result().triangles(), 12u);
  EXPECT_EQ(done.export_status().result().axes(), "z up, right-handed");
}

TEST_F(ExportJobTest, BoxThatIsKeptWithTheJobIsExportedUnlessARequestSaysOtherwise) {
  v1::UpdateJobRequest update;
  update.mutable_job()->set_name("projects/default/jobs/mic");
  v1::CropBox crop;
  for (int axis = 0; axis < 3; ++axis) {
    crop.add_center(0);
    crop.add_size(2);
  }
  *update.mutable_job()->mutable_training()->mutable_crop() = crop;
  update.mutable_update_mask()->add_paths("training.crop");
  ASSERT_THAT(server_.CallJob(&Jobs::UpdateJob, update), IsOk());
  v1::CreateJobRequest request = Request();
  Spec(request).set_whole(true);
  EXPECT_FALSE(server_.Create(request)->export_().has_box());
  *Spec(request).mutable_box() = crop;
  EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.export.whole"));
  request = Request("cameras");
  Spec(request).set_format(v1::ExportSpec::CAMERAS);
  EXPECT_FALSE(server_.Create(request)->export_().has_box());
  Spec(request).set_whole(true);
  EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.export.whole"));
  request = Request("own");
  *Spec(request).mutable_box() = crop;
  Spec(request).mutable_box()->set_size(0, 1);
  EXPECT_EQ(server_.Create(request)->export_().box().size(0), 1);
  request = Request("cut");
  request.set_request_id("0b9a0a4e-3b6e-4a4f-9d07-6f1f4b0c1d2e");
  request.mutable_job()->set_priority(9);
  EXPECT_EQ(server_.Create(request)->export_().box().size(0), 2);
  // Of the first request, also where the box has changed meanwhile.
  update.mutable_job()->mutable_training()->clear_crop();
  ASSERT_THAT(server_.CallJob(&Jobs::UpdateJob, update), IsOk());
  EXPECT_EQ(server_.Create(request)->export_().box().size(0), 2);
}

TEST_F(ExportJobTest, ValidateOnlyTellsTheSizeAndWhyItWouldWaitAndMakesNothing) {
  v1::CreateJobRequest request = Request();
  request.set_validate_only(true);
  Spec(request).set_format(v1::ExportSpec::PLY);
  Spec(request).set_triangles(1000);
  const auto checked = server_.Create(request);
  ASSERT_THAT(checked, IsOk());
  EXPECT_EQ(checked->export_status().expected_bytes(), 26'500);
  EXPECT_EQ(server_.ListJobs("kind = export").jobs_size(), 0);
  worker_.reset();
  const auto waits = [&] { return server_.Create(request)->wait().reason() == "NO_WORKER"; };
  for (int i = 0; i < 100 && !waits(); ++i) absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(waits());
}

TEST_F(ExportJobTest, BoundsFollowFromTheRequestUntilTheModelIsRead) {
  v1::CreateJobRequest request = Request();
  request.set_validate_only(true);
  v1::ExportSpec& spec = Spec(request);
  const auto max_bytes = [&](v1::ExportSpec::Format format, uint32_t resolution) {
    spec.set_format(format);
    spec.set_resolution(resolution);
    return server_.Create(request)->export_status().max_bytes();
  };
  const double points = max_bytes(v1::ExportSpec::POINTS, 64);
  EXPECT_GT(points, 27.0 * 64 * 64 * 64);
  EXPECT_GT(max_bytes(v1::ExportSpec::VDB, 64), 16.0 * 64 * 64 * 64);
  EXPECT_GT(max_bytes(v1::ExportSpec::NVDB, 1024), max_bytes(v1::ExportSpec::NVDB, 64));
  EXPECT_EQ(max_bytes(v1::ExportSpec::POINTS, 1024), max_bytes(v1::ExportSpec::POINTS, 1000))
      << "their views have so many pixels";
  spec.clear_resolution();
  spec.set_format(v1::ExportSpec::SPLATS);
  spec.set_max_splats(3000);
  EXPECT_NEAR(server_.Create(request)->export_status().max_bytes(), 3000 * 164, 4096);
  EXPECT_NEAR(max_bytes(v1::ExportSpec::SPZ, 0), 3000 * 44, 4096);
  EXPECT_LT(max_bytes(v1::ExportSpec::SOG, 0), 3000 * 60);
  EXPECT_NEAR(max_bytes(v1::ExportSpec::SPLATS_GLB, 0), 3000 * 160, 8192);
  spec.clear_max_splats();
  for (int axis = 0; axis < 3; ++axis) {
    spec.mutable_box()->add_center(0);
    spec.mutable_box()->add_size(axis == 0 ? 1 : 0.1);
  }
  EXPECT_LT(max_bytes(v1::ExportSpec::POINTS, 64), points / 20);
  spec.set_baked(true);
  EXPECT_GT(max_bytes(v1::ExportSpec::VIEWER, 0), 25e6);
  EXPECT_EQ(server_.Create(request)->export_status().expected_bytes(), 0);
}

TEST_F(ExportJobTest, SizeOfAViewerFollowsFromTheModelsTensors) {
  const v1::Job trained = server_.CreateJob(server_.CreateScene(), "lego");
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  v1::CommitCheckpointRequest commit = CheckpointRequest(server_, *grant, 100);
  v1::TensorSpec& grid = *commit.add_tensors();
  grid.set_name("occupancy.bits");
  grid.set_dtype("U8");
  for (const uint32_t size : {1u, 128u, 128u, 16u}) grid.add_shape(size);
  ASSERT_THAT(worker_->Commit(commit), IsOk());
  v1::CreateJobRequest request = Request("viewer");
  v1::ExportSpec& spec = Spec(request);
  spec.set_checkpoint(trained.name() + "/checkpoints/-");
  spec.set_format(v1::ExportSpec::VIEWER);
  const auto created = server_.Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_NEAR(created->export_status().expected_bytes(), 9.18e6, 0.05e6)
      << "a table of 2^17, a level of 128^3";
  EXPECT_EQ(Get("viewer").export_status().expected_bytes(),
            created->export_status().expected_bytes());
  request = Request("cameras");
  Spec(request).set_checkpoint(trained.name() + "/checkpoints/-");
  Spec(request).set_format(v1::ExportSpec::CAMERAS);
  EXPECT_GT(server_.Create(request)->export_status().expected_bytes(), 0);
  v1::CommitCheckpointRequest wrong = CheckpointRequest(server_, *grant, 200);
  *wrong.add_tensors() = grid;
  wrong.mutable_tensors(0)->set_shape(0, 4'000'000'000);  // levels
  ASSERT_THAT(worker_->Commit(wrong), IsOk());
  request = Request("wrong");
  Spec(request).set_checkpoint(trained.name() + "/checkpoints/-");
  Spec(request).set_format(v1::ExportSpec::VIEWER);
  EXPECT_EQ(server_.Create(request)->export_status().expected_bytes(), 0) << "no model has so many";
}

TEST_F(ExportJobTest, WhatAnOlderWorkerLacksWaitsForANewerOne) {
  v1::CreateJobRequest volume = Request("volume"), textured = Request("textured");
  Spec(volume).set_format(v1::ExportSpec::VDB);
  Spec(textured).set_texture(2048);
  EXPECT_EQ(server_.Create(textured)->export_status().expected_bytes(), 0) << "not known before";
  ASSERT_THAT(server_.Create(volume), IsOk());
  for (const char* const id : {"volume", "textured"}) {
    EXPECT_EQ(Get(id).wait().reason(), "NO_CAPABLE_WORKER");
    EXPECT_THAT(Get(id).wait().message(), HasSubstr("older versions have no"));
  }
  ASSERT_THAT(server_.Create(Request()), IsOk());
  const auto plain = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->job(), "projects/default/jobs/mesh");

  FakeWorker newer(server_.channel, RpcTestServer::kToken, "w-2");
  newer.Hello({}, {"ngp"}, {"export", "export-2"});
  const auto grant = newer.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), "projects/default/jobs/textured");
  EXPECT_EQ(grant->model_export().product().texture(), 2048u);
}

TEST_F(ExportJobTest, WorkersAreListedWithTheNameOfTheirJob) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  worker_->SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING));
  const auto listed = [&] {
    v1::ListWorkersResponse workers;
    EXPECT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::ListWorkers,
                                    v1::ListWorkersRequest(), &workers),
                IsOk());
    return workers.workers_size() == 1 ? workers.workers(0).job() : "";
  };
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return !listed().empty(); }));
  EXPECT_EQ(listed(), "projects/default/jobs/mesh");
}

TEST_F(ExportJobTest, PathsAndViewsGoThroughKeyframesOnWorkersThatAnnounceThem) {
  v1::CreateJobRequest request = Request("path");
  v1::ExportSpec& spec = Spec(request);
  spec.set_format(v1::ExportSpec::NERFSTUDIO_PATH);
  v1::KeyframePath& path = *spec.mutable_path()->mutable_keyframes();
  path.set_frames(60);
  for (int i = 0; i < 16; ++i) path.add_keyframes();
  for (v1::Keyframe& keyframe : *path.mutable_keyframes()) {
    keyframe.set_fov_degrees(50);
    for (int i = 0; i < 16; ++i) keyframe.add_transform_matrix(i % 5 == 0);
  }
  FakeWorker older(server_.channel, RpcTestServer::kToken, "w-2");
  older.Hello({}, {"ngp"}, {"export", "export-2"});
  const auto created = server_.Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_GT(created->export_status().expected_bytes(), 60 * 200);
  EXPECT_EQ(created->export_().resolution(), 0u);
  EXPECT_EQ(Get("path").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("path").wait().message(), HasSubstr("camera paths"));
  EXPECT_EQ(Get("path").export_().path().keyframes().keyframes_size(), 16);
  const v1::ListJobsResponse list = server_.ListJobs("kind = export");
  ASSERT_EQ(list.jobs_size(), 1);
  EXPECT_FALSE(list.jobs(0).export_().has_path());
  EXPECT_EQ(list.jobs(0).export_status().expected_bytes(),
            created->export_status().expected_bytes());

  FakeWorker newer(server_.channel, RpcTestServer::kToken, "w-3");
  newer.Hello({}, {"ngp"}, {"export", "export-2", "export-3"});
  const auto grant = newer.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->model_export().product().path().keyframes().frames(), 60u);

  request = Request("baked");
  Spec(request).set_format(v1::ExportSpec::VIEWER);
  Spec(request).set_baked(true);
  EXPECT_TRUE(server_.Create(request)->export_().baked());
  EXPECT_EQ(Get("baked").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("baked").wait().message(), HasSubstr("no baked viewers"));
  FakeWorker newest(server_.channel, RpcTestServer::kToken, "w-4");
  newest.Hello({}, {"ngp"}, {"export", "export-2", "export-3", "export-4"});
  const auto viewer = newest.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(viewer.has_value());
  EXPECT_TRUE(viewer->model_export().product().baked());

  request = Request("splats");
  Spec(request).set_format(v1::ExportSpec::SOG);
  ASSERT_THAT(server_.Create(request), IsOk());
  EXPECT_EQ(Get("splats").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("splats").wait().message(), HasSubstr("no splats as SPZ, SOG or GLB"));
  FakeWorker packing(server_.channel, RpcTestServer::kToken, "w-6");
  packing.Hello({}, {"ngp"}, {"export", "export-2", "export-3", "export-4", "export-5"});
  const auto splats = packing.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(splats.has_value());
  EXPECT_EQ(splats->model_export().product().format(), v1::ExportSpec::SOG);

  request = Request("nanovdb");
  Spec(request).set_format(v1::ExportSpec::NVDB);
  ASSERT_THAT(server_.Create(request), IsOk());
  EXPECT_EQ(Get("nanovdb").wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(Get("nanovdb").wait().message(), HasSubstr("built without libnanovdb-dev"));
  FakeWorker built(server_.channel, RpcTestServer::kToken, "w-5");
  built.Hello({}, {"ngp"}, {"export", "export-2", "export-3", "export-4", "export-nvdb"});
  const auto volume = built.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(volume.has_value());
  EXPECT_EQ(volume->model_export().product().format(), v1::ExportSpec::NVDB);

  request = Request("views");
  Spec(request).set_format(v1::ExportSpec::VIEWS);
  request.set_validate_only(true);
  EXPECT_EQ(server_.Create(request)->export_status().expected_bytes(), 0)
      << "of photographs it is not known";
  v1::Camera& camera = *Spec(request).mutable_path()->mutable_cameras()->add_cameras();
  for (int i = 0; i < 16; ++i) camera.add_transform_matrix(i % 5 == 0);
  camera.set_width(100);
  camera.set_height(50);
  camera.set_fl_x(100);
  EXPECT_EQ(server_.Create(request)->export_status().expected_bytes(), 25'000);
  EXPECT_GT(server_.Create(request)->export_status().max_bytes(), 35'000);
}

TEST_F(ExportJobTest, EveryWrongFieldIsNamedAtOnce) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  v1::CreateJobRequest request;
  Spec(request);
  EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.export.source", "job.export.format"));
  request = Request("Not an id");
  request.mutable_job()->set_priority(101);
  Spec(request).set_resolution(7);
  Spec(request).set_triangles(1'000'000'001);
  EXPECT_THAT(
      server_.WrongFields(request),
      ElementsAre("job_id", "job.priority", "job.export.resolution", "job.export.triangles"));
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
    *Spec(request).mutable_box()->mutable_center() = {box.center.begin(), box.center.end()};
    *Spec(request).mutable_box()->mutable_size() = {box.size.begin(), box.size.end()};
    EXPECT_THAT(server_.WrongFields(request), Contains(std::string("job.export.box.") + box.wrong));
  }
}

TEST_F(ExportJobTest, WhatAFormatDoesNotHaveIsRefused) {
  const auto wrong = [&](v1::ExportSpec::Format format, auto set) {
    v1::CreateJobRequest request = Request();
    Spec(request).set_format(format);
    set(Spec(request));
    return server_.WrongFields(request);
  };
  const auto box = [](v1::ExportSpec& spec) {
    for (int i = 0; i < 3; ++i) {
      spec.mutable_box()->add_center(0);
      spec.mutable_box()->add_size(1);
    }
  };
  EXPECT_THAT(wrong(v1::ExportSpec::VIEWER, box), testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportSpec::VIEWER,
                    [&](auto& spec) {
                      box(spec);
                      for (int i = 0; i < 4; ++i) spec.mutable_box()->add_turn(i);
                    }),
              ElementsAre("job.export.box.turn"));
  EXPECT_THAT(wrong(v1::ExportSpec::CAMERAS, box), ElementsAre("job.export.box"));
  EXPECT_THAT(wrong(v1::ExportSpec::VDB, box), testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportSpec::VDB, [](auto& spec) { spec.set_triangles(5); }),
              ElementsAre("job.export.triangles"));
  EXPECT_THAT(wrong(v1::ExportSpec::GLB, [](auto& spec) { spec.set_baked(true); }),
              ElementsAre("job.export.baked"));
  EXPECT_THAT(wrong(v1::ExportSpec::PLY, [](auto& spec) { spec.set_texture(1024); }),
              ElementsAre("job.export.texture"));
  for (const uint32_t texture : {1u, 63u, 8193u, 4'000'000'000u}) {
    EXPECT_THAT(wrong(v1::ExportSpec::GLB, [&](auto& spec) { spec.set_texture(texture); }),
                ElementsAre("job.export.texture"));
  }
  EXPECT_THAT(wrong(v1::ExportSpec::POINTS, [](auto& spec) { spec.set_triangles(5); }),
              ElementsAre("job.export.triangles"));
  EXPECT_THAT(wrong(v1::ExportSpec::VIEWER, [](auto& spec) { spec.set_resolution(64); }),
              ElementsAre("job.export.resolution"));
  EXPECT_THAT(
      wrong(v1::ExportSpec::VIEWER, [](auto& spec) { spec.set_frame(v1::ExportSpec::UNITY); }),
      ElementsAre("job.export.frame"));
  EXPECT_THAT(
      wrong(v1::ExportSpec::CAMERAS, [](auto& spec) { spec.set_frame(v1::ExportSpec::UNITY); }),
      ElementsAre("job.export.frame"));
  EXPECT_THAT(wrong(v1::ExportSpec::GLB,
                    [](auto& spec) { spec.set_frame(static_cast<v1::ExportSpec::Frame>(77)); }),
              ElementsAre("job.export.frame"));
  for (const auto format : {v1::ExportSpec::NERFSTUDIO_PATH, v1::ExportSpec::NGP_PATH}) {
    EXPECT_THAT(wrong(format, [](auto&) {}), testing::IsEmpty());
    EXPECT_THAT(wrong(format, box), ElementsAre("job.export.box"));
    EXPECT_THAT(wrong(format, [](auto& spec) { spec.set_whole(true); }),
                ElementsAre("job.export.whole"));
    EXPECT_THAT(wrong(format, [](auto& spec) { spec.set_frame(v1::ExportSpec::BLENDER); }),
                ElementsAre("job.export.frame"));
    EXPECT_THAT(wrong(format, [](auto& spec) { spec.set_resolution(64); }),
                ElementsAre("job.export.resolution"));
    EXPECT_THAT(
        wrong(format, [](auto& spec) { spec.mutable_path()->mutable_scene()->set_frames(9); }),
        ElementsAre("job.export.path.scene"));
    EXPECT_THAT(wrong(format, [](auto& spec) { spec.mutable_path()->mutable_keyframes(); }),
                ElementsAre("job.export.path.keyframes.frames", "job.export.path.keyframes"));
    EXPECT_THAT(wrong(format, [](auto& spec) { spec.mutable_path(); }),
                ElementsAre("job.export.path"));
    EXPECT_THAT(wrong(format,
                      [](auto& spec) {
                        auto& path = *spec.mutable_path()->mutable_keyframes();
                        path.set_frames(4'000);
                        for (int i = 0; i < 15; ++i) path.mutable_keyframes()->Add();
                        path.mutable_keyframes(2)->set_fov_degrees(kNan);
                      }),
                Contains("job.export.path.keyframes[2].fov_degrees"));
  }
  EXPECT_THAT(wrong(v1::ExportSpec::VIEWS, box), testing::IsEmpty());
  EXPECT_THAT(
      wrong(v1::ExportSpec::VIEWS, [](auto& spec) { spec.set_frame(v1::ExportSpec::UNREAL); }),
      ElementsAre("job.export.frame"));
  EXPECT_THAT(wrong(v1::ExportSpec::NVDB, [](auto& spec) { spec.set_resolution(64); }),
              testing::IsEmpty());
  EXPECT_THAT(wrong(v1::ExportSpec::GLB,
                    [](auto& spec) { spec.mutable_path()->mutable_cameras()->add_cameras(); }),
              ElementsAre("job.export.path.cameras[0].width", "job.export.path.cameras[0].height",
                          "job.export.path.cameras[0].fl_x",
                          "job.export.path.cameras[0].transform_matrix", "job.export.path"));
  EXPECT_THAT(wrong(static_cast<v1::ExportSpec::Format>(77), [](auto&) {}),
              ElementsAre("job.export.format"));
}

TEST_F(ExportJobTest, SourceThatIsNotThereOrOfAnotherProjectIsRefused) {
  v1::CreateJobRequest request = Request();
  Spec(request).set_model("projects/default/models/no");
  EXPECT_EQ(server_.Create(request).status().code(), StatusCode::kNotFound);
  Spec(request).set_checkpoint("projects/default/jobs/mic/checkpoints/7");
  EXPECT_EQ(server_.Create(request).status().code(), StatusCode::kNotFound);
  Spec(request).set_checkpoint("../../etc/passwd");
  EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.export.checkpoint"));
  Spec(request).set_model("projects/other/models/m");
  EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.export.source"));
}

TEST_F(ExportJobTest, NamesOfFilesWithFoldersEndTheWorkersStream) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  worker_->SendReport(Made(*grant, "../mesh.glb"));
  EXPECT_EQ(worker_->WaitForEnd().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Get().export_status().has_result());
}

TEST_F(ExportJobTest, CancelReachesTheWorkerAndTheJobEndsOnce) {
  ASSERT_THAT(server_.Create(Request()), IsOk());
  const auto grant = worker_->WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  const auto cancelled = server_.CancelJob(grant->job());
  ASSERT_THAT(cancelled, IsOk());
  EXPECT_EQ(cancelled->state(), v1::Job::CANCELLING);
  ASSERT_TRUE(worker_->WaitForOrder(v1::DesiredJob::CANCEL).has_value());
  worker_->SendReport(FakeWorker::Report(*grant, v1::JobReport::CANCELLED));
  ASSERT_TRUE(worker_->WaitForAcknowledgement(grant->job()));
  EXPECT_EQ(Get().state(), v1::Job::CANCELLED);
  ASSERT_THAT(server_.DeleteJob(grant->job()), IsOk());
  EXPECT_EQ(server_.DeleteJob(grant->job()).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace nerf
