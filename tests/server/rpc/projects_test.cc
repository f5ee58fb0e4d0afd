// Projects, quotas and drains over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class ProjectsTest : public testing::Test {
 protected:
  using Admin = v1::AdminService::Stub;

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Admin::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    return RpcTestServer::Call(*server_.admin_stub, method, request, response);
  }
  static v1::UpdateProjectRequest Update(const std::string& path) {
    v1::UpdateProjectRequest request;
    request.mutable_project()->set_name("projects/default");
    request.mutable_update_mask()->add_paths(path);
    return request;
  }

  RpcTestServer server_;
};

TEST_F(ProjectsTest, UpdateChangesTheNamedFieldsAlone) {
  v1::UpdateProjectRequest request = Update("quota");
  request.mutable_project()->mutable_quota()->set_max_queued_jobs(5);
  request.mutable_project()->mutable_retention()->set_max_ended_jobs(7);
  v1::Project project;
  ASSERT_THAT(Call(&Admin::UpdateProject, request, &project), IsOk());
  EXPECT_EQ(project.quota().max_queued_jobs(), 5);
  EXPECT_EQ(project.retention().max_ended_jobs(), 0);

  request = Update("retention.ended_job_age");
  request.mutable_project()->mutable_retention()->mutable_ended_job_age()->set_seconds(3600);
  ASSERT_THAT(Call(&Admin::UpdateProject, request, &project), IsOk());
  EXPECT_EQ(project.quota().max_queued_jobs(), 5);
  EXPECT_EQ(project.retention().ended_job_age().seconds(), 3600);

  v1::ListProjectsResponse list;
  ASSERT_THAT(Call(&Admin::ListProjects, v1::ListProjectsRequest(), &list), IsOk());
  ASSERT_EQ(list.projects_size(), 1);
  EXPECT_EQ(list.projects(0).name(), "projects/default");
}

TEST_F(ProjectsTest, BadSettingsAreRefusedByField) {
  v1::Project project;
  v1::UpdateProjectRequest repeated = Update("quota");
  for (int i = 0; i < 32; ++i) repeated.mutable_update_mask()->add_paths("quota");
  EXPECT_THAT(Call(&Admin::UpdateProject, repeated, &project),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(Call(&Admin::UpdateProject, Update("quota.max_cats"), &project),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(Call(&Admin::UpdateProject, v1::UpdateProjectRequest(), &project),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  for (const double bad : {-1.0, 0.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    v1::UpdateProjectRequest request = Update("quota.max_renders");
    request.mutable_project()->mutable_quota()->set_max_renders(bad);
    const absl::Status refused = Call(&Admin::UpdateProject, request, &project);
    EXPECT_THAT(refused, StatusIs(StatusCode::kInvalidArgument, "project.quota.max_renders"));
  }
  v1::UpdateProjectRequest request = Update("retention.model_age");
  request.mutable_project()->mutable_retention()->mutable_model_age()->set_seconds(-1);
  EXPECT_THAT(Call(&Admin::UpdateProject, request, &project),
              StatusIs(StatusCode::kInvalidArgument, "project.retention.model_age"));
}

TEST_F(ProjectsTest, QuotaRefusesJobsAndSaysWhyAJobWaits) {
  const std::string scene = server_.CreateScene();
  v1::UpdateProjectRequest request = Update("quota");
  request.mutable_project()->mutable_quota()->set_max_queued_jobs(1);
  request.mutable_project()->mutable_quota()->set_max_stored_bytes(1e9);
  v1::Project project;
  ASSERT_THAT(Call(&Admin::UpdateProject, request, &project), IsOk());
  server_.CreateJob(scene);
  v1::CreateJobRequest second;
  second.mutable_job()->mutable_training()->set_scene(scene);
  EXPECT_THAT(server_.Create(second),
              FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  v1::GetProjectRequest get;
  get.set_name("projects/default");
  ASSERT_THAT(Call(&Admin::GetProject, get, &project), IsOk());
  EXPECT_EQ(project.usage().queued_jobs(), 1);
}

TEST_F(ProjectsTest, DrainNeedsAKnownWorker) {
  v1::DrainWorkerRequest request;
  request.set_name("workers/nobody");
  v1::Worker worker;
  EXPECT_THAT(Call(&Admin::DrainWorker, request, &worker),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  request.set_name("nobody");
  EXPECT_THAT(Call(&Admin::DrainWorker, request, &worker),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

TEST_F(ProjectsTest, DeadlinesGoInAndOutOfAJob) {
  const std::string scene = server_.CreateScene();
  v1::CreateJobRequest request;
  request.mutable_job()->mutable_training()->set_scene(scene);
  const int64_t deadline = absl::ToUnixSeconds(server_.clock.WallNow()) + 60;
  request.mutable_job()->mutable_start_by_time()->set_seconds(deadline);
  const auto created = server_.Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->start_by_time().seconds(), deadline);
  EXPECT_FALSE(created->has_end_by_time());
  server_.clock.Advance(absl::Seconds(61));
  server_.Tick();
  const v1::Job job = server_.GetJob(created->name());
  EXPECT_EQ(job.state(), v1::Job::FAILED);
  EXPECT_EQ(job.error().code(), static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
}

}  // namespace
}  // namespace nerf
