#include "server/queue/catalogs/model_catalog.h"

#include "common/messages/deterministic_bytes.h"
#include "server/queue/records/resource_messages.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class ModelCatalogTest : public testing::Test {
 protected:
  ModelCatalogTest() {
    harness_.AddScene();
    lease_ = harness_.Running("one");
    Commit(1);
  }
  void Commit(uint32_t step) {
    ASSERT_THAT(harness_.leases->CommitCheckpoint(lease_, QueueHarness::Checkpoint(step)), IsOk());
  }
  // Promotes job "one" as "former", deletes it, and makes another job of its id with a checkpoint.
  void PromoteThenReplaceJob() {
    ASSERT_THAT(harness_.models->Promote(Spec("former", 1)), IsOk());
    ASSERT_THAT(harness_.leases->Finish(lease_, {}), IsOk());
    ASSERT_THAT(harness_.queue->Delete(lease_.job), IsOk());
    lease_ = harness_.Running("one");
    CheckpointRecord checkpoint = QueueHarness::Checkpoint(1);
    checkpoint.model_blob = QueueHarness::Blob("another model");
    ASSERT_THAT(harness_.leases->CommitCheckpoint(lease_, checkpoint), IsOk());
  }
  ModelSpec Spec(const std::string& id, std::optional<uint32_t> step) {
    return {"default", id, "", "", {{"default", "one"}, step}};
  }
  QueueHarness harness_;
  LeaseRef lease_;
};

TEST_F(ModelCatalogTest, PromotedCheckpointBecomesAModelAndIsNeverRetired) {
  const auto model = harness_.models->Promote(Spec("model", 1));
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->blob, QueueHarness::Blob("model 1"));
  EXPECT_EQ(model->tensors.size(), 2u);
  for (uint32_t step = 2; step <= 6; ++step) Commit(step);
  EXPECT_THAT(QueueHarness::Steps(harness_.Get("one")), testing::ElementsAre(1, 4, 5, 6));
  harness_.Restart();
  const ModelRecord stored = harness_.models->Get({"default", "model"}).value();
  EXPECT_TRUE(AreEqual(ToRecord(stored), ToRecord(*model)));
  // Without models the checkpoint can be retired like any other.
  ASSERT_THAT(harness_.models->Delete({"default", "model"}), IsOk());
  Commit(7);
  EXPECT_THAT(QueueHarness::Steps(harness_.Get("one")), testing::ElementsAre(5, 6, 7));
}

TEST_F(ModelCatalogTest, CropIsTheJobsAtFirstAndThenTheModelsOwn) {
  JobUpdate update;
  const auto box = [](double side) {
    v1::CropBox crop;
    crop.add_size(side);
    return crop;
  };
  update.crop = box(1);
  ASSERT_THAT(harness_.queue->Update({"default", "one"}, update), IsOk());
  const ResourceKey key = {"default", "model"};
  EXPECT_EQ(harness_.models->Promote(Spec("model", 1))->crop.size(0), 1);
  EXPECT_EQ(harness_.models->SetCrop(key, box(2))->crop.size(0), 2);
  EXPECT_EQ(harness_.models->SetCrop(key, box(2))->crop.size(0), 2);
  harness_.Restart();
  EXPECT_EQ(harness_.models->Get(key)->crop.size(0), 2);
  EXPECT_EQ(harness_.Get("one").crop.size(0), 1);
  EXPECT_THAT(harness_.models->SetCrop({"default", "no"}, box(1)),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
}

TEST_F(ModelCatalogTest, WithoutAStepTheNewestIsPromoted) {
  Commit(2);
  EXPECT_EQ(harness_.models->Promote(Spec("model", std::nullopt))->step, 2u);
}

TEST_F(ModelCatalogTest, WhatIsNotThereCannotBePromoted) {
  const auto not_found = FailsWith(StatusCode::kNotFound, reason::kResourceNotFound);
  EXPECT_THAT(harness_.models->Promote(Spec("model", 9)), not_found);
  ModelSpec spec = Spec("model", 1);
  spec.checkpoint.job.id = "other";
  EXPECT_THAT(harness_.models->Promote(spec), not_found);
  spec.checkpoint.job = {"elsewhere", "one"};
  EXPECT_THAT(harness_.models->Promote(spec),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

TEST_F(ModelCatalogTest, RepeatedRequestGivesTheSameModel) {
  ModelSpec spec = Spec("", std::nullopt);
  spec.request_id = kRequestA;
  const auto first = harness_.models->Promote(spec);
  ASSERT_THAT(first, IsOk());
  Commit(2);  // now another one is the newest
  EXPECT_TRUE(AreEqual(ToRecord(harness_.models->Promote(spec).value()), ToRecord(*first)));
  spec.display_name = "other";
  EXPECT_THAT(harness_.models->Promote(spec),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
  ASSERT_THAT(harness_.models->Promote(Spec("taken", 1)), IsOk());
  EXPECT_THAT(harness_.models->Promote(Spec("taken", 1)),
              FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
}

TEST_F(ModelCatalogTest, ModelThatAJobStartsFromStaysUntilTheJobIsFinal) {
  ASSERT_THAT(harness_.models->Promote(Spec("model", 1)), IsOk());
  JobSpec spec = harness_.Spec("two");
  spec.training.init =
      InitReference{InitReference::Kind::kModel, {"default", "model"}, 0, "all", {}};
  const auto job = harness_.queue->Create(spec);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->training.init->blob, QueueHarness::Blob("model 1"));
  EXPECT_THAT(harness_.models->Delete({"default", "model"}),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  EXPECT_THAT(harness_.queue->Cancel(job->key), IsOk());
  EXPECT_THAT(harness_.models->Delete({"default", "model"}), IsOk());
}

TEST_F(ModelCatalogTest, AJobMayLeaveItsStartToAChoice) {
  ASSERT_THAT(harness_.models->Promote(Spec("old", 1)), IsOk());
  Commit(2);
  ASSERT_THAT(harness_.models->Promote(Spec("new", 2)), IsOk());
  JobSpec spec = harness_.Spec("two");
  spec.training.init = InitReference{InitReference::Kind::kAuto, {}, 0, "all", {}};
  EXPECT_THAT(harness_.queue->Create(spec), StatusIs(StatusCode::kInternal, "nobody chooses"));
  std::vector<std::string> seen;
  spec.choose_start = [&](const StartQuestion& question) {
    for (const StartCandidate& candidate : question.candidates) {
      seen.push_back(candidate.model->key.id);
      EXPECT_EQ(candidate.job->key.id, "one");
      EXPECT_EQ(candidate.scene, question.scene);
    }
    return StartAnswer{question.candidates.back().model, "for a reason"};
  };
  const auto job = harness_.queue->Create(spec);
  ASSERT_THAT(job, IsOk());
  EXPECT_THAT(seen, testing::ElementsAre("new", "old"));
  EXPECT_EQ(job->training.init, (InitReference{InitReference::Kind::kModel,
                                               {"default", "old"},
                                               0,
                                               "all",
                                               QueueHarness::Blob("model 1")}));
  EXPECT_THAT(harness_.models->Delete({"default", "old"}),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  harness_.Restart();
  EXPECT_EQ(harness_.Get("two").training.init, job->training.init);
  EXPECT_EQ(harness_.Get("two").training.init_reason, "for a reason");

  spec.id = "three";
  spec.choose_start = [](const StartQuestion&) { return StartAnswer{nullptr, "none fits"}; };
  const auto scratch = harness_.queue->Create(spec);
  ASSERT_THAT(scratch, IsOk());
  EXPECT_FALSE(scratch->training.init.has_value());
  EXPECT_EQ(scratch->training.init_reason, "none fits");
}

TEST_F(ModelCatalogTest, AJobThatNamesNoStartMayContinueItsScene) {
  ASSERT_THAT(harness_.models->Promote(Spec("old", 1)), IsOk());
  JobSpec poses;
  poses.project = "default";
  poses.id = "more";
  poses.kind = JobKind::kPose;
  poses.pose.files = {{"a.jpg", QueueHarness::Blob("a")}};
  poses.pose.scene = "grown";
  poses.pose.into = harness_.Get("one").training.scene;
  ASSERT_THAT(harness_.queue->Create(poses), IsOk());
  JobSpec spec = harness_.Spec("two");
  spec.training.scene.clear();
  spec.training.pose_job = "more";
  int n_asked = 0;
  spec.choose_start = [&](const StartQuestion& question) {
    ++n_asked;
    EXPECT_TRUE(question.must_continue && question.scene_grows);
    EXPECT_EQ(question.scene->key.id, poses.pose.into);
    return StartAnswer{question.candidates[0].model, "of the same"};
  };
  const auto job = harness_.queue->Create(spec);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->training.init->source.id, "old");
  EXPECT_EQ(job->training.init_reason, "of the same");
  spec.id = "three";
  spec.training.init = InitReference{InitReference::Kind::kNone, {}, 0, "all", {}};
  const auto scratch = harness_.queue->Create(spec);
  ASSERT_THAT(scratch, IsOk());
  EXPECT_FALSE(scratch->training.init.has_value());
  EXPECT_EQ(n_asked, 1);
  // Without a model the training's last checkpoint is one.
  ASSERT_THAT(harness_.queue->Cancel(job->key), IsOk());
  ASSERT_THAT(harness_.models->Delete({"default", "old"}), IsOk());
  ASSERT_THAT(harness_.leases->Finish(lease_, {}), IsOk());
  spec.id = "four";
  spec.training.init.reset();
  const auto unnamed = harness_.queue->Create(spec);
  ASSERT_THAT(unnamed, IsOk());
  EXPECT_EQ(unnamed->training.init,
            (InitReference{InitReference::Kind::kCheckpoint, QueueHarness::Key("one"), 1, "all",
                           QueueHarness::Blob("model 1")}));
  // A scene that nobody has added to continues none.
  JobSpec plain = harness_.Spec("five");
  plain.choose_start = [](const StartQuestion&) {
    ADD_FAILURE() << "is asked";
    return StartAnswer{};
  };
  ASSERT_THAT(harness_.queue->Create(plain), IsOk());
  // The scene that is added to is there after a restart, as long as its pose job waits.
  harness_.Restart();
  EXPECT_THAT(harness_.scenes->Delete(QueueHarness::Key(poses.pose.into)),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
}

TEST_F(ModelCatalogTest, AnotherJobOfTheSameIdSaysNothingOfAModel) {
  PromoteThenReplaceJob();
  JobSpec spec = harness_.Spec("two");
  spec.training.init = InitReference{InitReference::Kind::kAuto, {}, 0, "all", {}};
  size_t n_candidates = 0;
  spec.choose_start = [&](const StartQuestion& question) {
    for (const StartCandidate& candidate : question.candidates) {
      ++n_candidates;
      EXPECT_EQ(candidate.job, nullptr);
      EXPECT_EQ(candidate.scene, nullptr);
    }
    return StartAnswer{};
  };
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  EXPECT_EQ(n_candidates, 1u);
}

TEST_F(ModelCatalogTest, DeletedModelsBlobIsLetGoOf) {
  ASSERT_THAT(harness_.models->Promote(Spec("model", 1)), IsOk());
  ASSERT_THAT(harness_.models->Delete({"default", "model"}), IsOk());
  EXPECT_THAT(harness_.blobs.released, testing::ElementsAre(QueueHarness::Blob("model 1").sha256));
}

TEST_F(ModelCatalogTest, ModelsOfAFormerJobOfTheSameIdSayNothingOfTheNewOnesCheckpoints) {
  PromoteThenReplaceJob();
  ASSERT_THAT(harness_.models->Promote(Spec("new", 1)), IsOk());
  ASSERT_THAT(harness_.models->Delete({"default", "new"}), IsOk());
  EXPECT_FALSE(harness_.Get("one").checkpoints[0].promoted)
      << "the former model was of another checkpoint";
  ASSERT_THAT(harness_.models->Promote(Spec("new", 1)), IsOk());
  ASSERT_THAT(harness_.models->Delete({"default", "former"}), IsOk());
  EXPECT_TRUE(harness_.Get("one").checkpoints[0].promoted) << "for the new model";
}

TEST_F(ModelCatalogTest, InitFromACheckpointKeepsItsFileAfterItIsRetired) {
  JobSpec spec = harness_.Spec("two");
  spec.training.init =
      InitReference{InitReference::Kind::kCheckpoint, {"default", "one"}, 1, "all", {}};
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  for (uint32_t step = 2; step <= 6; ++step) Commit(step);
  EXPECT_TRUE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("model 1").sha256));
  EXPECT_THAT(harness_.queue->Cancel({"default", "two"}), IsOk());
  EXPECT_FALSE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("model 1").sha256));
}

}  // namespace
}  // namespace nerf
