// A fake worker uses Synchronize and CommitCheckpoint of the whole server: grants, renewals,
// fences, ends, cancels, reconnects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using absl::StatusCode;

class WorkerProtocolTest : public testing::Test {
 protected:
  using Jobs = RpcTestServer::Jobs;

  std::unique_ptr<FakeWorker> NewWorker(const std::string& id = "w-1") {
    return std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
  }

  v1::CommitCheckpointRequest Checkpoint(const v1::DesiredJob& lease, uint32_t step) {
    return CheckpointRequest(server_, lease, step);
  }

  // Takes a job, reports it RUNNING and waits for the server's answer.
  static std::optional<v1::DesiredJob> RunJob(FakeWorker& worker) {
    const auto grant = worker.TakeJob();
    if (!grant.has_value()) return std::nullopt;
    worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 5));
    if (!worker.WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED).has_value()) return std::nullopt;
    return grant;
  }

  RpcTestServer server_;
};

TEST_F(WorkerProtocolTest, IdleWorkerIsGrantedTheJobWithEverythingItNeeds) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), job.name());
  EXPECT_EQ(grant->lease_epoch(), 1);
  EXPECT_EQ(grant->lease_ttl().seconds(), 30);
  ASSERT_EQ(grant->files_size(), 1);
  EXPECT_EQ(grant->files(0).path(), "transforms.json");
  EXPECT_EQ(grant->config().steps(), 100);
  EXPECT_EQ(grant->config().method(), "ngp");
  EXPECT_GT(grant->config().settings_size(), 10) << "every default must be filled in";
  EXPECT_FALSE(grant->has_resume());
  const v1::Job now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::PREPARING);
  EXPECT_THAT(now.workers(), testing::ElementsAre("workers/w-1"));
  EXPECT_EQ(now.attempt(), 1u);
}

TEST_F(WorkerProtocolTest, JobCreatedLaterIsPushedToTheIdleWorkerAtOnce) {
  auto worker = NewWorker();
  worker->Hello();
  ASSERT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), job.name());
}

TEST_F(WorkerProtocolTest, JobOfAMethodThatTheWorkerLacksIsLeftForAnother) {
  const std::string scene = server_.CreateScene();
  const v1::Job special = server_.CreateJob(scene, "special", "ngp-autograd");
  const v1::Job plain = server_.CreateJob(scene, "plain");
  auto worker = NewWorker();
  worker->Hello(std::nullopt, {"ngp"});
  const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), plain.name());
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(worker->WaitForAcknowledgement(plain.name()));
  worker->Idle();
  EXPECT_FALSE(worker->WaitForOrder(v1::DesiredJob::TRAIN, absl::Milliseconds(200)));
  EXPECT_EQ(server_.GetJob(special.name()).state(), v1::Job::QUEUED);

  auto other = NewWorker("w-2");
  other->Hello(std::nullopt, {"ngp", "ngp-autograd"});
  const auto special_grant = other->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(special_grant.has_value());
  EXPECT_EQ(special_grant->job(), special.name());
}

TEST_F(WorkerProtocolTest, WorkerThatDoesNotTellItsMethodsIsGrantedAnyJob) {
  const v1::Job job = server_.CreateJob(server_.CreateScene(), "special", "ngp-autograd");
  auto worker = NewWorker();
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->job(), job.name());
}

TEST_F(WorkerProtocolTest, QueuedJobSaysWhatItWaitsForWhereverItIsShown) {
  const std::string scene = server_.CreateScene();
  const v1::Job first = server_.CreateJob(scene, "first");
  EXPECT_EQ(first.wait().reason(), "NO_WORKER") << "the answer to a create tells it at once";
  auto worker = NewWorker();
  worker->Hello(std::nullopt, {"ngp"});
  const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(grant.has_value());
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING));
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
  EXPECT_FALSE(server_.GetJob(first.name()).has_wait());

  const v1::Job second = server_.CreateJob(scene, "second");
  EXPECT_EQ(second.wait().reason(), "WORKERS_BUSY");
  const v1::Job special = server_.CreateJob(scene, "special", "ngp-autograd");
  EXPECT_EQ(special.wait().reason(), "NO_CAPABLE_WORKER");
  const v1::Job third = server_.CreateJob(scene, "third");
  EXPECT_EQ(third.wait().message(),
            "the only worker is busy with job first, and 1 job is ahead of it");
  const v1::Job fourth = server_.CreateJob(scene, "fourth");
  EXPECT_EQ(fourth.wait().message(),
            "the only worker is busy with job first, and 2 jobs are ahead of it");

  v1::CreateJobRequest asked;
  asked.set_validate_only(true);
  asked.mutable_job()->mutable_training()->mutable_config()->set_method("ngp-autograd");
  const auto answer = server_.Create(asked);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->wait().reason(), "NO_CAPABLE_WORKER") << "before anything is uploaded";

  const v1::ListJobsResponse list = server_.ListJobs();
  ASSERT_EQ(list.jobs_size(), 5);
  EXPECT_EQ(list.jobs(0).wait().message(), fourth.wait().message());
  EXPECT_EQ(list.jobs(1).wait().message(), third.wait().message());
  EXPECT_EQ(list.jobs(3).wait().message(), second.wait().message());
  EXPECT_FALSE(list.jobs(4).has_wait());
}

TEST_F(WorkerProtocolTest, ProgressCheckpointAndSuccessReachTheJob) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::PREPARING));
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 50));
  const auto renewed = worker->WaitFor([](const auto& m) {
    return m.has_desired_job() && m.desired_job().lease_ttl().seconds() == 30 &&
           m.desired_job().action() == v1::DesiredJob::ACTION_UNSPECIFIED;
  });
  ASSERT_TRUE(renewed.has_value());
  ASSERT_THAT(worker->Commit(Checkpoint(*grant, 50)), IsOk());
  ASSERT_THAT(worker->Commit(Checkpoint(*grant, 50)), IsOk()) << "a repeated commit is fine";
  ASSERT_THAT(worker->Commit(Checkpoint(*grant, 100)), IsOk());
  v1::Job now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::RUNNING);
  EXPECT_EQ(now.training_status().progress().step(), 50u);
  ASSERT_EQ(now.training_status().checkpoints_size(), 2);
  EXPECT_EQ(now.training_status().checkpoints(1).name(), job.name() + "/checkpoints/100");

  v1::JobReport end = FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED, 100);
  end.set_final_psnr(31.5);
  worker->SendReport(end);
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(now.training_status().final_psnr(), 31.5);
  EXPECT_THAT(now.workers(), testing::IsEmpty());
  // The worker repeats a report that was not acknowledged.
  worker->SendReport(end);
  EXPECT_TRUE(worker->WaitForAcknowledgement(job.name()));
}

TEST_F(WorkerProtocolTest, CancelReachesTheWorkerAtOnceAndItsWordEndsTheJob) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = RunJob(*worker);
  ASSERT_TRUE(grant.has_value());
  ASSERT_THAT(server_.CancelJob(job.name()), IsOk());
  // The worker sends nothing meanwhile: the order does not wait for a heartbeat.
  const auto order = worker->WaitForOrder(v1::DesiredJob::CANCEL);
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->job(), job.name());
  EXPECT_EQ(server_.GetJob(job.name()).state(), v1::Job::CANCELLING);
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::CANCELLED, 6));
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  EXPECT_EQ(server_.GetJob(job.name()).state(), v1::Job::CANCELLED);
}

TEST_F(WorkerProtocolTest, PauseReachesTheWorkerAtOnceAndItsReleasePausesTheJob) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = RunJob(*worker);
  ASSERT_TRUE(grant.has_value());
  const auto paused = server_.CallJob(&Jobs::PauseJob, job.name());
  ASSERT_THAT(paused, IsOk());
  EXPECT_EQ(paused->state(), v1::Job::PAUSING);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::CHECKPOINT_AND_STOP));
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::RELEASED, 6));
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  EXPECT_EQ(server_.GetJob(job.name()).state(), v1::Job::PAUSED);
  worker->Idle();
  ASSERT_THAT(server_.CallJob(&Jobs::ResumeJob, job.name()), IsOk());
  EXPECT_TRUE(worker->WaitForOrder(v1::DesiredJob::TRAIN));
}

TEST_F(WorkerProtocolTest, JobResumedWhilePausingIsTrainedOnOnceItsWorkerHasReleasedIt) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = RunJob(*worker);
  ASSERT_TRUE(grant.has_value());
  ASSERT_THAT(server_.CallJob(&Jobs::PauseJob, job.name()), IsOk());
  const auto resumed = server_.CallJob(&Jobs::ResumeJob, job.name());
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->state(), v1::Job::PREPARING);
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::CHECKPOINT_AND_STOP));
  worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::RELEASED, 6));
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  worker->Idle();
  EXPECT_TRUE(worker->WaitForOrder(v1::DesiredJob::TRAIN));
}

TEST_F(WorkerProtocolTest, CancelBeforeTheFirstReportFollowsTheGrant) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  ASSERT_THAT(server_.CancelJob(job.name()), IsOk());
  EXPECT_TRUE(worker->WaitForOrder(v1::DesiredJob::CANCEL));
}

TEST_F(WorkerProtocolTest, MessageThatCrossedAGrantGetsNoSecondJob) {
  const std::string scene = server_.CreateScene();
  const v1::Job first = server_.CreateJob(scene);
  const v1::Job second = server_.CreateJob(scene);
  auto worker = NewWorker();
  ASSERT_TRUE(worker->TakeJob().has_value());
  worker->Idle();
  worker->Idle();
  EXPECT_FALSE(worker->WaitForOrder(v1::DesiredJob::TRAIN, absl::Milliseconds(300)));
  EXPECT_EQ(server_.GetJob(second.name()).state(), v1::Job::QUEUED);
}

TEST_F(WorkerProtocolTest, ExpiredLeaseGoesToAnotherWorkerAndTheFirstOneIsFenced) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto slow = NewWorker("w-slow");
  const auto old_grant = slow->TakeJob();
  ASSERT_TRUE(old_grant.has_value());
  slow->SendReport(FakeWorker::Report(*old_grant, v1::JobReport::RUNNING, 5));
  ASSERT_TRUE(slow->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));

  server_.clock.Advance(absl::Seconds(31));
  server_.leases->ExpireLeases();
  v1::Job now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::QUEUED);
  EXPECT_EQ(now.queue_reason(), "WORKER_LOST");

  auto other = NewWorker("w-other");
  const auto new_grant = other->TakeJob();
  ASSERT_TRUE(new_grant.has_value());
  EXPECT_GT(new_grant->lease_epoch(), old_grant->lease_epoch());
  // The slow worker still uses its old lease: all its writes are refused.
  EXPECT_THAT(slow->Commit(Checkpoint(*old_grant, 10)),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  slow->SendReport(FakeWorker::Report(*old_grant, v1::JobReport::RUNNING, 10));
  EXPECT_TRUE(slow->WaitForOrder(v1::DesiredJob::ABANDON));
  slow->SendReport(FakeWorker::Report(*old_grant, v1::JobReport::SUCCEEDED, 100));
  EXPECT_TRUE(slow->WaitForAcknowledgement(job.name())) << "or it would repeat it forever";
  now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::PREPARING);
  EXPECT_THAT(now.workers(), testing::ElementsAre("workers/w-other"));
  EXPECT_EQ(now.training_status().checkpoints_size(), 0);
}

// A backup was restored, and an epoch that one worker holds was granted again to another.
TEST_F(WorkerProtocolTest, CommitOfAnotherWorkerAtTheSameEpochIsFenced) {
  server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker("w-1");
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  v1::CommitCheckpointRequest commit = Checkpoint(*grant, 10);
  auto other = NewWorker("w-2");
  other->Hello();
  ASSERT_TRUE(other->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
  commit.set_worker_id("w-2");
  EXPECT_THAT(other->Commit(commit),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  commit.set_worker_id("w-1");
  EXPECT_THAT(worker->Commit(commit), IsOk());
}

TEST_F(WorkerProtocolTest, SilentWorkerIsDroppedAndListedAsLost) {
  auto worker = NewWorker();
  worker->Hello();
  ASSERT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
  server_.clock.Advance(absl::Seconds(31));
  server_.Tick();
  EXPECT_THAT(worker->WaitForEnd(), StatusIs(StatusCode::kUnavailable));
  v1::ListWorkersResponse workers;
  ASSERT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::ListWorkers,
                                  v1::ListWorkersRequest(), &workers),
              IsOk());
  ASSERT_EQ(workers.workers_size(), 1);
  EXPECT_EQ(workers.workers(0).name(), "workers/w-1");
  EXPECT_EQ(workers.workers(0).state(), v1::Worker::LOST);
  EXPECT_EQ(workers.workers(0).device(), "cpu");
}

TEST_F(WorkerProtocolTest, MadeUpWorkersDoNotTakeTheKeyOfOneThatHasJustDisconnected) {
  auto worker = NewWorker();
  worker->Hello();
  ASSERT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
  server_.clock.Advance(absl::Hours(25));
  worker.reset();
  // A worker that was silent for a day is forgotten once its stream has ended.
  ASSERT_TRUE(
      WaitUntil(absl::Seconds(30), [&] { return !server_.workers->Find("w-1").has_value(); }));
  const auto nobody = [](const std::string&) { return false; };
  const auto now = [](const std::function<void()>& store) { store(); };
  absl::Status bound;
  for (size_t i = 0; bound.ok() && i <= WorkerKeyOptions().max_keys; ++i)
    bound = server_.worker_keys->CheckOrBind("made-up-" + std::to_string(i), "key", nobody, now);
  EXPECT_THAT(bound, FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  EXPECT_THAT(server_.worker_keys->Check("w-1", "key of w-1"), IsOk());
}

TEST_F(WorkerProtocolTest, NewerStreamOfTheSameWorkerEndsTheOlderAndKeepsTheLease) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto older = NewWorker();
  const auto grant = older->TakeJob();
  ASSERT_TRUE(grant.has_value());
  auto newer = NewWorker();
  newer->Hello(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 7));
  EXPECT_THAT(older->WaitForEnd(), StatusIs(StatusCode::kAborted, "newer stream"));
  ASSERT_TRUE(newer->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
  const v1::Job now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::RUNNING);
  EXPECT_EQ(now.attempt(), 1u);
  EXPECT_EQ(now.training_status().progress().step(), 7u);
}

TEST_F(WorkerProtocolTest, WorkerThatComesBackWithoutItsJobLosesItAtOnceAndGetsItAnew) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto before = NewWorker();
  const auto grant = before->TakeJob();
  ASSERT_TRUE(grant.has_value());
  v1::CommitCheckpointRequest checkpoint = Checkpoint(*grant, 40);
  checkpoint.set_seconds(12.5);
  ASSERT_THAT(before->Commit(checkpoint), IsOk());
  before->Cancel();
  before.reset();
  auto after = NewWorker();
  const auto again = after->TakeJob();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->lease_epoch(), grant->lease_epoch() + 1);
  ASSERT_TRUE(again->has_resume());
  EXPECT_EQ(again->resume().step(), 40u);
  EXPECT_EQ(again->resume().seconds(), 12.5);
  EXPECT_EQ(server_.GetJob(job.name()).attempt(), 2u);
}

TEST_F(WorkerProtocolTest, ReleaseAndCrashQueueTheJobAgainWithTheirReasons) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  v1::SynchronizeRequest leaving;
  *leaving.mutable_job() = FakeWorker::Report(*grant, v1::JobReport::RELEASED, 3);
  leaving.set_draining(true);
  worker->Send(leaving);
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  EXPECT_EQ(server_.GetJob(job.name()).queue_reason(), "WORKER_DRAINED");

  worker->Idle();  // does not leave
  const auto second = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(second.has_value());
  v1::JobReport crash = FakeWorker::Report(*second, v1::JobReport::ENGINE_CRASHED, 3);
  crash.mutable_error()->set_code(13);
  crash.mutable_error()->set_message("signal 11");
  v1::SynchronizeRequest leaving_again;
  *leaving_again.mutable_job() = crash;
  leaving_again.set_draining(true);  // or it would be granted the job at once
  worker->Send(leaving_again);
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  EXPECT_EQ(server_.GetJob(job.name()).queue_reason(), "ENGINE_CRASHED");
}

TEST_F(WorkerProtocolTest, DrainingWorkerIsGrantedNothing) {
  auto worker = NewWorker();
  v1::SynchronizeRequest hello;
  hello.mutable_hello()->set_worker_id("w-1");
  hello.set_draining(true);
  worker->Send(hello);
  ASSERT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  EXPECT_FALSE(worker->WaitForOrder(v1::DesiredJob::TRAIN, absl::Milliseconds(300)));
  EXPECT_EQ(server_.GetJob(job.name()).state(), v1::Job::QUEUED);
}

TEST_F(WorkerProtocolTest, FailureWithProblemsIsStoredWithAllOfThem) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  auto worker = NewWorker();
  const auto grant = worker->TakeJob();
  ASSERT_TRUE(grant.has_value());
  v1::JobReport failure = FakeWorker::Report(*grant, v1::JobReport::FAILED);
  *failure.mutable_error() = ToRpcStatus(WithReason(absl::InvalidArgumentError("2 problems"),
                                                    reason::kFieldInvalid, {{"problems", "2"}}));
  for (int i = 0; i < 2; ++i) {
    v1::SceneProblem* problem = failure.add_problems();
    problem->set_file("transforms.json");
    problem->set_field("frames[" + std::to_string(i) + "].transform_matrix");
    problem->set_message("holds NaN");
  }
  worker->SendReport(failure);
  ASSERT_TRUE(worker->WaitForAcknowledgement(job.name()));
  const v1::Job now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::FAILED);
  EXPECT_THAT(FromRpcStatus(now.error()),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  ASSERT_EQ(now.problems_size(), 2);
  EXPECT_EQ(now.problems(1).field(), "frames[1].transform_matrix");
}

TEST_F(WorkerProtocolTest, ServerRestartKeepsTheLeaseOfAWorkerThatComesBack) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  std::optional<v1::DesiredJob> grant;
  {
    auto worker = NewWorker();
    grant = worker->TakeJob();
    ASSERT_TRUE(grant.has_value());
    worker->SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 5));
    ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
  }
  server_.Stop();
  server_.Start();
  auto worker = NewWorker();
  worker->Hello(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 9));
  ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
  const v1::Job now = server_.GetJob(job.name());
  EXPECT_EQ(now.state(), v1::Job::RUNNING);
  EXPECT_EQ(now.attempt(), 1u);
}

}  // namespace
}  // namespace nerf
