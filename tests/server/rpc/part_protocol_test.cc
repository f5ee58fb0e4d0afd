// Independent tiles that several workers train, on the whole server with fake workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class PartProtocolTest : public testing::Test {
 protected:
  v1::CreateJobRequest Request(const std::string& tiles, uint32_t workers) {
    v1::CreateJobRequest request;
    request.set_job_id("whole");
    v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
    training.set_scene(server_.CreateScene());
    training.mutable_config()->set_method("ngp-tiles");
    training.mutable_config()->set_steps(1000);
    (*training.mutable_config()->mutable_settings())["tiles"] = tiles;
    training.mutable_workers()->set_min(workers);
    return request;
  }
  std::unique_ptr<FakeWorker> NewWorker(const std::string& id,
                                        const std::vector<std::string>& features) {
    auto worker = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
    worker->Hello(std::nullopt, {"ngp", "ngp-tiles"}, features);
    EXPECT_TRUE(worker->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
    return worker;
  }
  // Ends the granted job with a checkpoint; returns its model.
  v1::BlobRef Succeed(FakeWorker& worker, const v1::DesiredJob& grant, uint32_t step) {
    worker.SendReport(FakeWorker::Report(grant, v1::JobReport::RUNNING, step));
    const v1::CommitCheckpointRequest commit = CheckpointRequest(server_, grant, step);
    EXPECT_THAT(worker.Commit(commit), IsOk());
    worker.SendReport(FakeWorker::Report(grant, v1::JobReport::SUCCEEDED, step));
    EXPECT_TRUE(worker.WaitForAcknowledgement(grant.job()));
    worker.Idle();
    return commit.model_blob();
  }

  RpcTestServer server_;
};

TEST_F(PartProtocolTest, WorkersThatMergeTrainTheTilesAndGetTheirModels) {
  const auto job = server_.Create(Request("2", 2));
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->wait().reason(), "NO_WORKER");
  ASSERT_EQ(job->training_status().parts_size(), 2);
  EXPECT_EQ(job->training_status().parts(1), "projects/default/jobs/whole-part1");
  EXPECT_EQ(job->training_status().effective_config().settings().at("tile"), "all");
  const v1::Job part = server_.GetJob(job->training_status().parts(1));
  EXPECT_EQ(part.training_status().part_of(), job->name());
  EXPECT_EQ(part.training_status().effective_config().settings().at("tile"), "1");
  EXPECT_FALSE(part.training().has_workers());

  const auto old = NewWorker("w-old", {"render"});
  EXPECT_THAT(server_.GetJob(job->name()).wait().message(),
              HasSubstr("trains parts of method ngp-tiles"));
  const auto worker = NewWorker("w-1", {"render", "merge/ngp-tiles"});
  v1::BlobRef models[2];
  for (int tile : {0, 1}) {
    const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
    ASSERT_TRUE(grant.has_value()) << tile;
    EXPECT_EQ(grant->job(), job->training_status().parts(tile));
    EXPECT_EQ(grant->config().settings().at("tile"), std::to_string(tile));
    EXPECT_EQ(grant->merge_size(), 0);
    EXPECT_EQ(server_.GetJob(job->name()).wait().reason(), "PARTS");
    models[tile] = Succeed(*worker, *grant, 1000 + tile);
  }
  server_.Tick();
  const auto merge = worker->WaitForOrder(v1::DesiredJob::TRAIN);
  ASSERT_TRUE(merge.has_value());
  EXPECT_EQ(merge->job(), job->name());
  EXPECT_FALSE(merge->has_gang());
  ASSERT_EQ(merge->merge_size(), 2);
  EXPECT_EQ(merge->merge(0).sha256(), models[0].sha256());
  EXPECT_EQ(merge->merge(1).sha256(), models[1].sha256());
  EXPECT_EQ(merge->files_size(), 1) << "the scene, for the evaluation";
  Succeed(*worker, *merge, 1002);
  EXPECT_EQ(server_.GetJob(job->name()).state(), v1::Job::SUCCEEDED);
  EXPECT_FALSE(old->WaitForOrder(v1::DesiredJob::TRAIN, absl::Milliseconds(50)).has_value());
  server_.Tick();
  EXPECT_EQ(server_.GetJob(job->training_status().parts(0)).training_status().checkpoints_size(),
            0);
}

TEST_F(PartProtocolTest, StoredPartsSurviveARestart) {
  const auto job = server_.Create(Request("4", 2));
  ASSERT_THAT(job, IsOk());
  {
    const auto worker = NewWorker("w-1", {"merge/ngp-tiles"});
    for (int tile = 0; tile < 4; ++tile) {
      const auto grant = worker->WaitForOrder(v1::DesiredJob::TRAIN);
      ASSERT_TRUE(grant.has_value());
      Succeed(*worker, *grant, 1000 + tile);
    }
    server_.Tick();
    ASSERT_TRUE(worker->WaitForOrder(v1::DesiredJob::TRAIN).has_value());
  }
  server_.Stop();
  server_.Start();
  const v1::Job whole = server_.GetJob(job->name());
  EXPECT_EQ(whole.training_status().parts_size(), 4);
  EXPECT_EQ(server_.GetJob(job->training_status().parts(2)).training_status().part_of(),
            job->name());
}

TEST_F(PartProtocolTest, WhatCannotBeSharedOutIsRefused) {
  v1::CreateJobRequest joint = Request("2", 2);
  auto& settings = *joint.mutable_job()->mutable_training()->mutable_config()->mutable_settings();
  settings["tile_training"] = "joint";
  EXPECT_THAT(server_.Create(joint).status(),
              StatusIs(StatusCode::kInvalidArgument, "cannot be split"));
  settings.erase("tile_training");
  settings["tile"] = "1";
  EXPECT_THAT(server_.Create(joint).status(),
              StatusIs(StatusCode::kInvalidArgument, "cannot be split"));
  settings["tile"] = "5";
  EXPECT_THAT(server_.Create(joint).status(), StatusIs(StatusCode::kInvalidArgument, "settings"));
  settings["tile"] = "every";
  EXPECT_THAT(server_.Create(joint).status(),
              StatusIs(StatusCode::kInvalidArgument, "settings[tile]"));
  settings.erase("tile");
  joint.mutable_job()->mutable_training()->mutable_workers()->set_min(33);
  EXPECT_THAT(server_.Create(joint).status(), StatusIs(StatusCode::kInvalidArgument, "workers"));
  // One worker trains all tiles.
  const auto one = server_.Create(Request("2", 1));
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->training_status().parts_size(), 0);
  // Output only.
  v1::CreateJobRequest forged = Request("2", 1);
  forged.set_job_id("forged");
  forged.mutable_job()->mutable_training_status()->add_parts(one->name());
  forged.mutable_job()->mutable_training_status()->set_part_of(one->name());
  const auto made = server_.Create(forged);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->training_status().parts_size(), 0);
  EXPECT_EQ(made->training_status().part_of(), "");
}

}  // namespace
}  // namespace nerf
