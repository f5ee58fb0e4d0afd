// Fake workers as a gang on the whole server: grants, texts of the ranks, ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class GangProtocolTest : public testing::Test {
 protected:
  std::unique_ptr<FakeWorker> NewWorker(const std::string& id,
                                        const std::vector<std::string>& features = {"ranks"},
                                        const std::string& device = "cpu") {
    auto worker = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
    worker->Hello(std::nullopt, {"ngp"}, features, device);
    EXPECT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
    return worker;
  }

  using Settings = std::map<std::string, std::string>;

  absl::Status Create(const std::string& method, uint32_t min, uint32_t max, v1::Job* job,
                      const Settings& settings = {}) {
    v1::CreateJobRequest request;
    request.set_job_id("gang");
    v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
    training.set_scene(server_.CreateScene());
    training.mutable_config()->set_method(method);
    training.mutable_config()->mutable_settings()->insert(settings.begin(), settings.end());
    training.mutable_workers()->set_min(min);
    training.mutable_workers()->set_max(max);
    return RpcTestServer::Call(*server_.job_stub, &v1::JobService::Stub::CreateJob, request, job);
  }

  // A gang of two; the first element is rank 0.
  void StartGang() {
    ASSERT_THAT(Create("ngp", 2, 0, &job_), IsOk());
    std::unique_ptr<FakeWorker> one = NewWorker("w-1"), two = NewWorker("w-2");
    auto first = one->WaitForOrder(v1::DesiredJob::TRAIN);
    auto second = two->WaitForOrder(v1::DesiredJob::TRAIN);
    ASSERT_TRUE(first.has_value() && second.has_value());
    if (first->gang().rank() > 0) {
      std::swap(one, two);
      std::swap(first, second);
    }
    workers_.push_back(std::move(one));
    workers_.push_back(std::move(two));
    grants_ = {*first, *second};
    for (int rank : {0, 1}) {
      workers_[rank]->SendReport(FakeWorker::Report(grants_[rank], v1::JobReport::RUNNING));
    }
    ASSERT_TRUE(workers_[0]->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
    ASSERT_TRUE(workers_[1]->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
  }

  void Tell(int rank, uint32_t sequence, const std::string& text) {
    v1::SynchronizeRequest message;
    *message.mutable_job() = FakeWorker::Report(grants_[rank], v1::JobReport::PREPARING);
    message.mutable_rank_text()->set_job(job_.name());
    message.mutable_rank_text()->set_lease_epoch(grants_[rank].lease_epoch());
    message.mutable_rank_text()->set_rank(static_cast<uint32_t>(rank));
    message.mutable_rank_text()->set_sequence(sequence);
    message.mutable_rank_text()->set_text(text);
    workers_[rank]->Send(message);
  }

  RpcTestServer server_;
  v1::Job job_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;  // by rank
  std::vector<v1::DesiredJob> grants_;
};

TEST_F(GangProtocolTest, MembersAreGrantedTogetherAndShown) {
  StartGang();
  for (uint32_t rank : {0, 1}) {
    EXPECT_EQ(grants_[rank].part(), rank);
    EXPECT_EQ(grants_[rank].gang().rank(), rank);
    EXPECT_EQ(grants_[rank].gang().n_ranks(), 2u);
    EXPECT_TRUE(grants_[rank].gang().one_host());
    EXPECT_EQ(grants_[rank].lease_epoch(), 1u);
  }
  const v1::Job job = server_.GetJob(job_.name());
  EXPECT_EQ(job.training().workers().max(), 2u);
  ASSERT_EQ(job.training_status().members_size(), 2);
  ASSERT_EQ(job.workers_size(), 2);
  EXPECT_EQ(job.training_status().members(0).worker(), job.workers(0));
  EXPECT_EQ(job.training_status().members(1).worker(), job.workers(1));
  EXPECT_EQ(job.training_status().members(1).rank(), 1u);
  EXPECT_EQ(job.training_status().members(1).host(), "host-1");
}

TEST_F(GangProtocolTest, JobThatNeedsMoreWorkersSaysSo) {
  ASSERT_THAT(Create("ngp", 3, 4, &job_), IsOk());
  EXPECT_EQ(job_.wait().reason(), "NO_WORKER");
  const auto one = NewWorker("w-1"), two = NewWorker("w-2");
  EXPECT_EQ(server_.GetJob(job_.name()).wait().message(),
            "it needs 3 workers that can train together; there are 2");
  EXPECT_EQ(server_.GetJob(job_.name()).state(), v1::Job::QUEUED);
}

TEST_F(GangProtocolTest, TextsOfAllRanksReachEachOfThem) {
  StartGang();
  Tell(0, 0, "here is rank 0");
  Tell(1, 0, "here is rank 1");
  for (int rank : {0, 1}) {
    const auto answer = workers_[rank]->WaitFor([](const auto& m) { return m.has_rank_texts(); });
    ASSERT_TRUE(answer.has_value()) << rank;
    EXPECT_EQ(answer->rank_texts().job(), job_.name());
    ASSERT_EQ(answer->rank_texts().texts_size(), 2);
    EXPECT_EQ(answer->rank_texts().texts(0), "here is rank 0");
    EXPECT_EQ(answer->rank_texts().texts(1), "here is rank 1");
  }
}

TEST_F(GangProtocolTest, LostMemberEndsTheGangForAll) {
  StartGang();
  workers_[1].reset();  // its stream ends
  v1::JobReport broken = FakeWorker::Report(grants_[0], v1::JobReport::RELEASED);
  broken.set_release_reason(v1::JobReport::MEMBER_LOST);
  broken.set_lost_rank(1);
  workers_[0]->SendReport(broken);
  ASSERT_TRUE(workers_[0]->WaitForAcknowledgement(job_.name()));
  const v1::Job job = server_.GetJob(job_.name());
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
  EXPECT_EQ(job.queue_reason(), "WORKER_LOST");
  EXPECT_THAT(job.queue_message(), HasSubstr("rank 1 (worker w-"));
  EXPECT_EQ(job.training_status().members_size(), 0);
  // A third worker takes the place.
  const auto third = NewWorker("w-3");
  workers_[0]->Idle();
  const auto again = workers_[0]->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->lease_epoch(), 2u);
  EXPECT_TRUE(third->WaitForOrder(v1::DesiredJob::TRAIN).has_value());
}

TEST_F(GangProtocolTest, CrashOfOneEngineIsToldToTheOthersAtOnce) {
  StartGang();
  workers_[1]->SendReport(FakeWorker::Report(grants_[1], v1::JobReport::ENGINE_CRASHED));
  ASSERT_TRUE(workers_[1]->WaitForAcknowledgement(job_.name()));
  EXPECT_TRUE(workers_[0]->WaitForOrder(v1::DesiredJob::ABANDON).has_value());
}

TEST_F(GangProtocolTest, MemberThatLeavesLetsRankZeroWriteACheckpoint) {
  StartGang();
  v1::SynchronizeRequest leaving;
  *leaving.mutable_job() = FakeWorker::Report(grants_[1], v1::JobReport::RUNNING);
  leaving.set_draining(true);
  workers_[1]->Send(leaving);
  EXPECT_TRUE(workers_[0]->WaitForOrder(v1::DesiredJob::CHECKPOINT_AND_STOP).has_value());
  workers_[0]->SendReport(FakeWorker::Report(grants_[0], v1::JobReport::RELEASED));
  ASSERT_TRUE(workers_[0]->WaitForAcknowledgement(job_.name()));
  EXPECT_TRUE(workers_[1]->WaitForOrder(v1::DesiredJob::ABANDON).has_value());
  EXPECT_EQ(server_.GetJob(job_.name()).queue_reason(), "WORKER_DRAINED");
}

TEST_F(GangProtocolTest, EndOfRankZeroFreesTheOthers) {
  StartGang();
  workers_[0]->SendReport(FakeWorker::Report(grants_[0], v1::JobReport::SUCCEEDED));
  ASSERT_TRUE(workers_[0]->WaitForAcknowledgement(job_.name()));
  EXPECT_TRUE(workers_[1]->WaitForOrder(v1::DesiredJob::ABANDON).has_value());
  EXPECT_EQ(server_.GetJob(job_.name()).state(), v1::Job::SUCCEEDED);
}

TEST_F(GangProtocolTest, GangOnCudaDevicesTakesWorkersThatHaveThem) {
  ASSERT_THAT(Create("ngp", 2, 8, &job_, {{"cuda_deterministic", "1"}}), IsOk());
  // None of these trains on CUDA devices together with others, whatever it says.
  const auto cpu = NewWorker("w-1"), liar = NewWorker("w-2", {"ranks", "ranks-cuda"}),
             other_kind = NewWorker("w-3", {"ranks"}, "cuda:0"),
             unknown = NewWorker("w-4", {"ranks-cuda"}, "cuda"),
             one = NewWorker("w-5", {"ranks-cuda"}, "cuda:0");
  EXPECT_EQ(server_.GetJob(job_.name()).wait().message(),
            "it needs 2 workers that can train together on CUDA devices of one kind; there is 1; "
            "this worker has no libnerf_gloo for that: w-3");
  const auto two = NewWorker("w-6", {"ranks-cuda"}, "cuda:1");
  const auto first = one->WaitForOrder(v1::DesiredJob::TRAIN);
  const auto second = two->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->gang().n_ranks(), 2u);
  EXPECT_EQ(first->lease_epoch(), second->lease_epoch());
  EXPECT_EQ(server_.GetJob(job_.name()).training_status().members_size(), 2);
}

TEST_F(GangProtocolTest, OneOfAGangThatNoWorkerCanTakeSaysSo) {
  ASSERT_THAT(Create("ngp", 1, 2, &job_, {{"cuda_deterministic", "1"}}), IsOk());
  const auto cpu = NewWorker("w-1"), alone = NewWorker("w-2", {}, "cuda:0");
  EXPECT_EQ(server_.GetJob(job_.name()).wait().message(),
            "it needs 1 worker that can train together on CUDA devices of one kind; there are 0; "
            "this worker has no libnerf_gloo for that: w-2");
}

TEST_F(GangProtocolTest, GangThatWaitsForCpusBesideCudaDevicesSaysWhatBringsItThere) {
  ASSERT_THAT(Create("ngp", 2, 2, &job_), IsOk());
  const auto one = NewWorker("w-1", {"ranks-cuda"}, "cuda:0"),
             two = NewWorker("w-2", {"ranks-cuda"}, "cuda:1");
  EXPECT_EQ(server_.GetJob(job_.name()).wait().message(),
            "it needs 2 workers that can train together on CPUs (with cuda_deterministic=1 on CUDA "
            "devices); there are 0");
}

TEST_F(GangProtocolTest, SettingsThatDoNotFitTheDevicesOfAGangAreRefusedByName) {
  const auto refusal = [&](uint32_t max, const Settings& settings) {
    const absl::Status status = Create("ngp", 2, max, &job_, settings);
    EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(9, {{"cuda_deterministic", "1"}}),
              HasSubstr("settings.cuda_deterministic: at most 8 ranks share a step, not 9"));
  EXPECT_THAT(refusal(2, {{"cuda_fp32", "1"}}),
              HasSubstr("settings.cuda_fp32: a gang without cuda_deterministic, which trains on "
                        "CPUs, does not honor it; leave it at 0"));
  EXPECT_THAT(refusal(2, {{"cuda_deterministic", "1"}, {"pose_rate", "0.1"}}),
              HasSubstr("settings.pose_rate: a training of several ranks does not honor it"));
  const Settings honored = {{"cuda_deterministic", "1"}, {"cuda_fp32", "1"}, {"half_table", "0"}};
  EXPECT_THAT(Create("ngp", 8, 8, &job_, honored), IsOk());
}

TEST_F(GangProtocolTest, WhatCannotBeSplitIsRefusedByName) {
  const absl::Status method = Create("voxels", 2, 2, &job_);
  EXPECT_THAT(method, FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(std::string(method.message()), HasSubstr("method voxels cannot be split"));
  EXPECT_THAT(Create("ngp", 3, 2, &job_),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(Create("ngp", 33, 33, &job_),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(Create("voxels", 1, 1, &job_), IsOk());
}

}  // namespace
}  // namespace nerf
