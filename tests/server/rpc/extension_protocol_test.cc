// A training that is extended, on the whole server with fake workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class ExtensionProtocolTest : public testing::Test {
 protected:
  std::unique_ptr<FakeWorker> NewWorker(const std::string& id,
                                        const std::vector<std::string>& features) {
    auto worker = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
    worker->Hello(std::nullopt, {"ngp"}, features);
    EXPECT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
    return worker;
  }
  // Ends the granted job with a checkpoint.
  void Succeed(FakeWorker& worker, const v1::DesiredJob& grant, uint32_t step, double samples) {
    v1::JobReport report = FakeWorker::Report(grant, v1::JobReport::RUNNING, step);
    report.mutable_progress()->set_samples(samples);
    worker.SendReport(report);
    ASSERT_THAT(worker.Commit(CheckpointRequest(server_, grant, step)), IsOk());
    report.set_phase(v1::JobReport::SUCCEEDED);
    worker.SendReport(report);
    EXPECT_TRUE(worker.WaitForAcknowledgement(grant.job()));
    worker.Idle();
  }
  absl::StatusOr<v1::Job> Extend(const v1::ExtendJobRequest& request) {
    return server_.CallJob(&RpcTestServer::Jobs::ExtendJob, request);
  }

  RpcTestServer server_;
};

TEST_F(ExtensionProtocolTest, WorkersAreToldToGoOnToTheNewTotal) {
  const v1::Job first = server_.CreateJob(server_.CreateScene());
  const auto old = NewWorker("w-old", {"render"});
  auto grant = old->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  EXPECT_FALSE(grant->extend());
  Succeed(*old, *grant, 100, 4e7);

  v1::ExtendJobRequest request;
  request.set_name(first.name());
  request.set_samples(8e7);
  request.set_job_id("more");
  const auto job = Extend(request);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->name(), "projects/default/jobs/more");
  EXPECT_EQ(job->training_status().extension_of(), first.name());
  EXPECT_EQ(job->training().config().samples(), 8e7);
  EXPECT_EQ(job->training_status().effective_config().samples(), 8e7);
  EXPECT_EQ(job->training().config().method(), first.training().config().method());
  EXPECT_EQ(server_.GetJob(job->name()).wait().reason(), "NO_CAPABLE_WORKER");
  EXPECT_THAT(server_.GetJob(job->name()).wait().message(),
              testing::HasSubstr("older versions do not"));

  const auto worker = NewWorker("w-new", {"render", "extend"});
  grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), job->name());
  EXPECT_TRUE(grant->extend());
  EXPECT_EQ(grant->resume().step(), 100u);
  EXPECT_EQ(grant->config().samples(), 8e7);
  Succeed(*worker, *grant, 200, 8e7);
  EXPECT_EQ(server_.GetJob(job->name()).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(server_.GetJob(first.name()).training_status().checkpoints(0).step(), 100u)
      << "stays as it was";
}

TEST_F(ExtensionProtocolTest, HostileTotalsAreRefusedByName) {
  const v1::Job first = server_.CreateJob(server_.CreateScene());
  const auto worker = NewWorker("w", {"extend"});
  const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  Succeed(*worker, *grant, 100, 4e7);
  v1::ExtendJobRequest request;
  request.set_name(first.name());
  EXPECT_THAT(Extend(request), StatusIs(StatusCode::kInvalidArgument, "total"));
  for (const double samples : {-1.0, 0.0, 0.5, 1e16, 4e7 + 0.5, std::nan(""), HUGE_VAL}) {
    request.set_samples(samples);
    EXPECT_THAT(Extend(request), StatusIs(StatusCode::kInvalidArgument, "samples")) << samples;
  }
  request.set_samples(4e7);
  EXPECT_THAT(Extend(request), StatusIs(StatusCode::kInvalidArgument, "above the 40000000"));
  request.set_steps(0);
  EXPECT_THAT(Extend(request), StatusIs(StatusCode::kInvalidArgument, "steps"));
  request.set_steps(100);
  EXPECT_THAT(Extend(request), StatusIs(StatusCode::kInvalidArgument, "above the 100 steps"));
  request.set_seconds(1e300);
  EXPECT_THAT(Extend(request), StatusIs(StatusCode::kInvalidArgument, "seconds"));
  request.set_samples(8e7);
  request.set_name("projects/lab" + first.name().substr(std::string("projects/default").size()));
  EXPECT_THAT(Extend(request), StatusIs(StatusCode::kNotFound, "projects/lab/jobs/"))
      << "of another project";
}

}  // namespace
}  // namespace nerf
