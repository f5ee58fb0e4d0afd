// What JobService does for jobs of every kind, and what it refuses to those that are no trainings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/rpc/metadata.h"
#include "server/access/method_policy.h"
#include "server/rpc/calls/method_lane.h"
#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/rpc/test_stream.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kJobKindsUuid[] = "5c1c3a5e-8b2f-4d0a-9a64-2f1f6d3b7c90";

std::string NameOf(const std::string& id) { return "projects/default/jobs/" + id; }

std::vector<std::string> Names(const google::protobuf::RepeatedPtrField<v1::Job>& jobs) {
  std::vector<std::string> names;
  for (const v1::Job& job : jobs) names.push_back(job.name());
  return names;
}

class JobKindsTest : public testing::Test {
 protected:
  using Jobs = RpcTestServer::Jobs;

  // "mic" is a finished training. "film", "fox" and "mesh" wait, since its worker has left.
  void SetUp() override {
    server_.CreateJob(server_.CreateScene("mic"), "mic");
    {
      FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
      const auto grant = worker.TakeJob();
      ASSERT_TRUE(grant.has_value());
      ASSERT_THAT(worker.Commit(CheckpointRequest(server_, *grant, 100)), IsOk());
      worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
      ASSERT_TRUE(worker.WaitForAcknowledgement(NameOf("mic")));
    }
    for (const std::string& id : kOthers) ASSERT_THAT(server_.Create(Request(id)), IsOk());
  }

  // A request for a job of the kind of `like`.
  v1::CreateJobRequest Request(const std::string& like) {
    v1::CreateJobRequest request;
    request.set_job_id(like);
    v1::Job& job = *request.mutable_job();
    const std::string checkpoint = NameOf("mic") + "/checkpoints/-";
    if (like == "film") {
      job.mutable_render()->set_checkpoint(checkpoint);
      job.mutable_render()->mutable_path()->mutable_scene()->set_frames(2);
      job.mutable_render()->set_width(8);
      job.mutable_render()->set_height(8);
      job.mutable_render()->set_images(true);
    } else if (like == "fox") {
      v1::SceneFile* file = job.mutable_pose()->add_files();
      file->set_path("a.jpg");
      *file->mutable_blob() = server_.Put("a photograph");
    } else {
      job.mutable_export_()->set_checkpoint(checkpoint);
      job.mutable_export_()->set_format(v1::ExportSpec::NGP_PATH);
      v1::Camera& camera = *job.mutable_export_()->mutable_path()->mutable_cameras()->add_cameras();
      for (int i = 0; i < 16; ++i) camera.add_transform_matrix(i % 5 == 0);
      camera.set_width(8);
      camera.set_height(8);
      camera.set_fl_x(8);
    }
    return request;
  }

  static v1::CropBox Box() {
    v1::CropBox box;
    for (int axis = 0; axis < 3; ++axis) {
      box.add_center(0);
      box.add_size(1);
    }
    return box;
  }

  static inline const std::vector<std::string> kOthers = {"film", "fox", "mesh"};
  RpcTestServer server_;
};

TEST_F(JobKindsTest, ListShowsAllKindsNewestFirstWithoutTheirLargeParts) {
  const v1::ListJobsResponse list = server_.ListJobs();
  ASSERT_THAT(Names(list.jobs()),
              ElementsAre(NameOf("mesh"), NameOf("fox"), NameOf("film"), NameOf("mic")));
  EXPECT_TRUE(list.jobs(0).has_export_() && list.jobs(0).has_export_status());
  EXPECT_TRUE(list.jobs(1).has_pose() && list.jobs(1).has_pose_status());
  EXPECT_TRUE(list.jobs(2).has_render() && list.jobs(2).has_render_status());
  EXPECT_TRUE(list.jobs(3).has_training() && list.jobs(3).has_training_status());
  EXPECT_FALSE(list.jobs(0).export_().has_path());
  EXPECT_EQ(list.jobs(1).pose().files_size(), 0);
  EXPECT_EQ(list.jobs(1).pose_status().file_count(), 1u);
  EXPECT_FALSE(list.jobs(2).render().has_path());
  EXPECT_EQ(list.jobs(2).render_status().frame_count(), 2u);
  EXPECT_TRUE(server_.GetJob(NameOf("mesh")).export_().has_path());
  EXPECT_EQ(server_.GetJob(NameOf("fox")).pose().files_size(), 1);
  EXPECT_TRUE(server_.GetJob(NameOf("film")).render().has_path());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(list.jobs(i).state(), v1::Job::QUEUED);
    EXPECT_EQ(list.jobs(i).wait().reason(), "NO_WORKER");
    EXPECT_NE(list.jobs(i).etag(), "");
    EXPECT_EQ(list.jobs(i).attempt(), 0u);
  }
}

TEST_F(JobKindsTest, FilterTellsKindsApart) {
  const auto names = [&](const std::string& filter) {
    return Names(server_.ListJobs(filter).jobs());
  };
  EXPECT_THAT(names("kind = training"), ElementsAre(NameOf("mic")));
  EXPECT_THAT(names("kind = render AND state = QUEUED"), ElementsAre(NameOf("film")));
  EXPECT_THAT(names("kind = pose"), ElementsAre(NameOf("fox")));
  EXPECT_THAT(names("kind = export"), ElementsAre(NameOf("mesh")));
  EXPECT_THAT(names("kind != pose AND state = QUEUED"),
              ElementsAre(NameOf("mesh"), NameOf("film")));
  EXPECT_THAT(names("kind = render AND state = RUNNING"), IsEmpty());
}

TEST_F(JobKindsTest, RowsOfAllKindsAreWatched) {
  v1::WatchJobsRequest request;
  request.set_filter("kind = render AND state = QUEUED");
  TestStream<v1::WatchJobsResponse> stream(
      [&](auto* context) { return server_.job_stub->WatchJobs(context, request); });
  v1::WatchJobsResponse message;
  ASSERT_TRUE(stream.Read(&message));
  ASSERT_THAT(Names(message.jobs()), ElementsAre(NameOf("film")));
  EXPECT_EQ(message.jobs(0).SerializeAsString(),
            server_.ListJobs("kind = render").jobs(0).SerializeAsString());
  for (const char* id : {"mesh", "film"}) ASSERT_THAT(server_.CancelJob(NameOf(id)), IsOk());
  const auto is_gone = [&] {
    return std::ranges::find(message.removed(), NameOf("film")) != message.removed().end();
  };
  do {
    ASSERT_TRUE(stream.Read(&message));
    EXPECT_EQ(message.jobs_size(), 0);
  } while (!is_gone());
}

TEST_F(JobKindsTest, EachIsWatchedToItsEnd) {
  for (const std::string& id : kOthers) {
    v1::WatchJobRequest request;
    request.set_name(NameOf(id));
    TestStream<v1::WatchJobResponse> stream(
        [&](auto* context) { return server_.job_stub->WatchJob(context, request); });
    v1::WatchJobResponse message;
    const auto next = [&] {
      while (stream.Read(&message)) {
        if (message.kind() != v1::WatchJobResponse::BOOKMARK) return message.kind();
      }
      return v1::WatchJobResponse::KIND_UNSPECIFIED;
    };
    EXPECT_EQ(next(), v1::WatchJobResponse::SNAPSHOT) << id;
    EXPECT_EQ(message.job().state(), v1::Job::QUEUED);
    EXPECT_EQ(message.job().spec_case(), Request(id).job().spec_case());
    EXPECT_FALSE(message.job().render().has_path() || message.job().export_().has_path());
    EXPECT_EQ(message.job().pose().files_size(), 0);
    v1::UpdateJobRequest update;
    update.mutable_job()->set_name(request.name());
    update.mutable_job()->set_priority(7);
    update.mutable_update_mask()->add_paths("priority");
    ASSERT_THAT(server_.CallJob(&Jobs::UpdateJob, update), IsOk());
    EXPECT_EQ(next(), v1::WatchJobResponse::UPDATED) << id;
    EXPECT_EQ(message.job().priority(), 7);
    ASSERT_THAT(server_.CancelJob(request.name()), IsOk());
    EXPECT_EQ(next(), v1::WatchJobResponse::STATE_CHANGED) << id;
    EXPECT_EQ(message.job().state(), v1::Job::CANCELLED);
    EXPECT_EQ(next(), v1::WatchJobResponse::KIND_UNSPECIFIED);
    EXPECT_THAT(stream.Finish(), IsOk());
    EXPECT_THAT(server_.DeleteJob(request.name()), IsOk());
  }
  EXPECT_THAT(Names(server_.ListJobs().jobs()), ElementsAre(NameOf("mic")));
}

TEST_F(JobKindsTest, NamePriorityAndLabelsOfEachAreUpdated) {
  std::vector<std::string> ids = kOthers;
  ids.push_back("mic");
  for (const std::string& id : ids) {
    v1::UpdateJobRequest request;
    v1::Job& job = *request.mutable_job();
    job.set_name(NameOf(id));
    job.set_display_name("the " + id);
    job.set_priority(-3);
    (*job.mutable_labels())["team"] = "blue";
    for (const char* path : {"display_name", "priority", "labels"}) {
      request.mutable_update_mask()->add_paths(path);
    }
    job.set_etag(server_.GetJob(job.name()).etag());
    ASSERT_THAT(server_.CallJob(&Jobs::UpdateJob, request), IsOk()) << id;
    const v1::Job updated = server_.GetJob(job.name());
    EXPECT_EQ(updated.display_name(), "the " + id);
    EXPECT_EQ(updated.priority(), -3);
    EXPECT_EQ(updated.labels().at("team"), "blue");
    EXPECT_THAT(server_.CallJob(&Jobs::UpdateJob, request),
                FailsWith(StatusCode::kAborted, reason::kEtagMismatch))
        << id;
  }
}

TEST_F(JobKindsTest, WhatOnlyTrainingsDoIsRefused) {
  const std::pair<const char*, const char*> kinds[] = {
      {"film", "a render"}, {"fox", "a pose"}, {"mesh", "an export"}};
  for (const auto& [id, kind] : kinds) {
    const std::string name = NameOf(id);
    const auto refused = [&](const std::string& why) {
      return testing::AllOf(
          FailsWith(StatusCode::kFailedPrecondition, reason::kKindCannot),
          StatusIs(StatusCode::kFailedPrecondition, name + " is " + kind + " job: it " + why));
    };
    EXPECT_THAT(server_.CallJob(&Jobs::PauseJob, name), refused("cannot be paused"));
    EXPECT_THAT(server_.CallJob(&Jobs::ResumeJob, name), refused(""));
    EXPECT_THAT(server_.CallJob(&Jobs::RetryJob, name), refused("cannot be retried"));
    v1::ExtendJobRequest extend;
    extend.set_name(name);
    extend.set_steps(500);
    EXPECT_THAT(server_.CallJob(&Jobs::ExtendJob, extend), refused("cannot be extended"));
    v1::CancelJobRequest cancel;
    cancel.set_name(name);
    cancel.set_keep_checkpoint(true);
    EXPECT_THAT(server_.CallJob(&Jobs::CancelJob, cancel), refused("has no checkpoint"));
    v1::ListJobMetricsRequest metrics;
    metrics.set_name(name);
    v1::ListJobMetricsResponse curves;
    EXPECT_THAT(RpcTestServer::Call(*server_.job_stub, &Jobs::ListJobMetrics, metrics, &curves),
                refused("has no curves"));
    v1::RenderImageRequest view;
    view.set_training_job(name);
    view.mutable_orbit()->set_count(4);
    view.set_width(8);
    view.set_height(8);
    v1::RenderImageResponse image;
    EXPECT_THAT(RpcTestServer::Call(*server_.render_stub, &v1::RenderService::Stub::RenderImage,
                                    view, &image),
                refused("has no weights"));
    EXPECT_EQ(server_.GetJob(name).state(), v1::Job::QUEUED);
    // Also once it could be retried or extended if it were a training.
    ASSERT_THAT(server_.CancelJob(name), IsOk());
    EXPECT_THAT(server_.CallJob(&Jobs::RetryJob, name), refused("cannot be retried"));
    EXPECT_THAT(server_.CallJob(&Jobs::CancelJob, cancel), refused("has no checkpoint"));
  }
}

TEST_F(JobKindsTest, DeadlinesAndKeptBoxesAreOfTrainingsAlone) {
  const int64_t soon = absl::ToUnixSeconds(server_.clock.WallNow()) + 60;
  for (const std::string& id : kOthers) {
    v1::CreateJobRequest request = Request(id);
    request.set_job_id("other");
    request.mutable_job()->mutable_start_by_time()->set_seconds(soon);
    request.mutable_job()->mutable_end_by_time()->set_seconds(soon);
    EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.start_by_time", "job.end_by_time"))
        << id;
    v1::UpdateJobRequest update;
    *update.mutable_job() = request.job();
    update.mutable_job()->set_name(NameOf(id));
    for (const char* path : {"start_by_time", "end_by_time"}) {
      update.mutable_update_mask()->add_paths(path);
    }
    EXPECT_THAT(RpcTestServer::FieldsOf(server_.CallJob(&Jobs::UpdateJob, update).status()),
                ElementsAre("job.start_by_time", "job.end_by_time"))
        << id;
    *update.mutable_job()->mutable_training()->mutable_crop() = Box();
    *update.mutable_update_mask()->mutable_paths() = {};
    update.mutable_update_mask()->add_paths("training.crop");
    EXPECT_THAT(RpcTestServer::FieldsOf(server_.CallJob(&Jobs::UpdateJob, update).status()),
                ElementsAre("job.training.crop"))
        << id;
    EXPECT_FALSE(server_.GetJob(NameOf(id)).has_start_by_time());
  }
}

TEST_F(JobKindsTest, JobsWithoutASpecAreRefusedWithAllElseThatIsWrong) {
  v1::CreateJobRequest request;
  EXPECT_THAT(server_.WrongFields(request), ElementsAre("job.spec"));
  request.mutable_job()->set_priority(101);
  EXPECT_THAT(server_.WrongFields(request),
              testing::UnorderedElementsAre("job.priority", "job.spec"));
}

TEST_F(JobKindsTest, ValidateOnlyShowsAJobOfAnyKindAndMakesNone) {
  for (const std::string& id : kOthers) {
    v1::CreateJobRequest request = Request(id);
    request.set_job_id("asked");
    request.set_validate_only(true);
    const auto asked = server_.Create(request);
    ASSERT_THAT(asked, IsOk()) << id;
    EXPECT_EQ(asked->spec_case(), request.job().spec_case());
    EXPECT_EQ(asked->wait().reason(), "NO_WORKER");
  }
  EXPECT_EQ(server_.ListJobs().jobs_size(), 4);
}

// Ids, names and ids of requests are of all kinds together.
TEST_F(JobKindsTest, OneIdIsOfOneJobWhateverItsKind) {
  v1::CreateJobRequest request = Request("film");
  request.set_job_id("fox");
  EXPECT_THAT(server_.Create(request),
              FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
  request.set_job_id("");
  request.set_request_id(kJobKindsUuid);
  const auto first = server_.Create(request);
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(server_.Create(request)->name(), first->name());
  v1::CreateJobRequest other = Request("mesh");
  other.set_job_id("");
  other.set_request_id(kJobKindsUuid);
  EXPECT_THAT(server_.Create(other),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
}

TEST_F(JobKindsTest, NamesOfJobsOfOtherKindsAreNoSourcesAndNoPoses) {
  v1::CreateJobRequest request;
  request.mutable_job()->mutable_training()->set_pose_job(NameOf("film"));
  EXPECT_THAT(server_.Create(request),
              FailsWith(StatusCode::kFailedPrecondition, reason::kKindCannot));
  request = Request("film");
  request.set_job_id("");
  request.mutable_job()->mutable_render()->set_checkpoint(NameOf("mesh") + "/checkpoints/-");
  EXPECT_THAT(server_.Create(request), FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  v1::PromoteCheckpointRequest promote;
  promote.set_name(NameOf("fox") + "/checkpoints/-");
  v1::Model model;
  EXPECT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::PromoteCheckpoint,
                                  promote, &model),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
}

TEST_F(JobKindsTest, RenderJobTellsItsWorkersAndWhatTheyHaveRendered) {
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-2");
  worker.Hello({}, {"ngp"}, {"render"});
  const auto grant = worker.WaitForOrder(v1::DesiredJob::RENDER);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), NameOf("film"));
  ASSERT_EQ(grant->frames().frames_size(), 2);
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING));
  ASSERT_TRUE(worker.WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value());
  EXPECT_EQ(server_.GetJob(NameOf("film")).state(), v1::Job::RUNNING);
  EXPECT_THAT(server_.GetJob(NameOf("film")).workers(), ElementsAre("workers/w-2"));

  v1::CommitFramesRequest commit;
  commit.set_job(grant->job());
  commit.set_lease_epoch(grant->lease_epoch());
  commit.set_part(grant->part());
  commit.set_worker_id("w-2");
  const auto frames = [&] {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), RpcTestServer::kToken, &context);
    context.AddMetadata(kWorkerKeyMetadata, "key of w-2");
    v1::CommitFramesResponse response;
    return FromGrpcStatus(server_.worker_stub->CommitFrames(&context, commit, &response));
  };
  for (uint32_t index : {0, 1}) {
    v1::CommitFramesRequest::Frame& frame = *commit.add_frames();
    frame.set_index(index);
    *frame.add_images() = server_.Make("frame " + std::to_string(index));
  }
  ASSERT_THAT(frames(), IsOk());
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(worker.WaitForAcknowledgement(grant->job()));
  const v1::Job done = server_.GetJob(NameOf("film"));
  EXPECT_EQ(done.state(), v1::Job::SUCCEEDED);
  EXPECT_THAT(done.workers(), IsEmpty());
  EXPECT_EQ(done.render_status().frames_done(), 2u);
  ASSERT_EQ(done.render_status().frames_size(), 2);
  EXPECT_EQ(done.render_status().frames(1).images(0).sha256(), server_.Put("frame 1").sha256());
  EXPECT_EQ(server_.ListJobs("kind = render").jobs(0).render_status().frames_size(), 0);
}

// A call that reads the store holds up those of its lane.
TEST(MethodLaneTest, CurvesAreReadInTheLaneOfReads) {
  constexpr std::string_view kMethod = "nerf.v1.JobService/ListJobMetrics";
  ASSERT_NE(FindMethodPolicy(kMethod), nullptr);
  EXPECT_EQ(LaneOf(kMethod), Lane::kRead);
  EXPECT_EQ(LaneOf("nerf.v1.JobService/ListJobs"), Lane::kQuick);
}

}  // namespace
}  // namespace nerf
