#include "server/queue/jobs/training_curve.h"

#include <gtest/gtest.h>

#include "common/messages/deterministic_bytes.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

v1::TrainingMetrics PointAt(uint32_t step, double loss = 0.5) {
  v1::TrainingMetrics point;
  point.set_step(step);
  point.set_loss(loss);
  return point;
}

std::vector<uint32_t> StepsOf(const TrainingCurve& curve) {
  std::vector<uint32_t> steps;
  for (const v1::TrainingMetrics& point : curve.record().points()) steps.push_back(point.step());
  return steps;
}

v1::Progress Progress(uint32_t step, double loss, const std::string& image = "") {
  v1::Progress progress;
  progress.set_step(step);
  progress.set_loss(loss);
  progress.set_seconds(step * 0.1);
  if (!image.empty()) {
    progress.set_preview_step(step);
    *progress.mutable_preview_image() = ToProto(QueueHarness::Blob(image));
  }
  return progress;
}

internal::JobProgress Of(const v1::Progress& training) {
  internal::JobProgress progress;
  *progress.mutable_training() = training;
  return progress;
}

TEST(TrainingCurveTest, KeepsEndsAndEvenDistancesOfALongTraining) {
  TrainingCurve curve;
  for (uint32_t step = 10; step <= 200'000; step += 10) curve.Add(PointAt(step));
  ASSERT_EQ(curve.record().points().size(), TrainingCurve::kMaxPoints);
  EXPECT_EQ(curve.record().points().begin()->step(), 10u);
  EXPECT_EQ(curve.record().points().rbegin()->step(), 200'000u);
  uint32_t widest = 0;
  for (int i = 1; i < curve.record().points_size(); ++i) {
    widest =
        std::max(widest, curve.record().points(i).step() - curve.record().points(i - 1).step());
  }
  EXPECT_LE(widest, 4 * 200'000u / TrainingCurve::kMaxPoints);
}

TEST(TrainingCurveTest, StepsThatAreTrainedAgainReplaceThoseOfBefore) {
  TrainingCurve curve;
  for (uint32_t step : {10u, 20u, 30u}) curve.Add(PointAt(step));
  curve.Add(PointAt(20, 0.25));
  EXPECT_EQ(StepsOf(curve), (std::vector<uint32_t>{10, 20}));
  EXPECT_EQ(curve.record().points().rbegin()->loss(), 0.25);
}

TEST(TrainingCurveTest, MissingPointsAreAddedBehindTheLastOnly) {
  TrainingCurve curve;
  curve.AddMissing({PointAt(10), PointAt(20)});
  EXPECT_TRUE(curve.TakeChanged());
  EXPECT_FALSE(curve.TakeChanged());
  curve.AddMissing({PointAt(5), PointAt(20, 0.1), PointAt(25), PointAt(30)});
  EXPECT_EQ(StepsOf(curve), (std::vector<uint32_t>{10, 20, 25, 30}));
  EXPECT_EQ(curve.record().points()[1].loss(), 0.5);
  EXPECT_TRUE(curve.TakeChanged());
}

TEST(TrainingCurveTest, ProgressWithoutLossIsNoPoint) {
  EXPECT_FALSE(PointOf(Progress(0, 0.5)).has_value());
  EXPECT_FALSE(PointOf(Progress(10, 0)).has_value());
  EXPECT_EQ(PointOf(Progress(10, 0.5))->seconds(), 1.0);
}

TEST(TrainingCurveTest, AtMost64PreviewsAreKeptWithTheFirstAndTheLast) {
  Job job;
  size_t n_removed = 0;
  for (uint32_t step = 1; step <= 200; ++step) {
    n_removed += NotePreview(Progress(step, 0.5, std::to_string(step)), &job).has_value();
  }
  EXPECT_EQ(job.previews.size(), kMaxPreviews);
  EXPECT_EQ(n_removed, 200 - kMaxPreviews);
  EXPECT_EQ(job.previews.front().step(), 1u);
  EXPECT_EQ(job.previews.back().step(), 200u);
  EXPECT_FALSE(NotePreview(Progress(200, 0.4, "200"), &job).has_value());
}

// A worker reports, nerfd is killed, and the worker repeats its last minutes to the next nerfd.
class StoredCurveTest : public testing::Test {
 protected:
  void SetUp() override { harness_.AddScene(); }
  std::vector<std::string> Points() {
    std::vector<std::string> points;
    const auto curve = *harness_.queue->GetCurve(QueueHarness::Key("one"));
    for (const v1::TrainingMetrics& point : curve.points())
      points.push_back(point.ShortDebugString());
    return points;
  }
  QueueHarness harness_;
};

TEST_F(StoredCurveTest, NoPointIsLostByAKillWhenTheWorkerRepeatsItsLastOnes) {
  const LeaseRef lease = harness_.Running("one");
  std::vector<v1::Progress> recent;
  for (uint32_t step = 10; step <= 250; step += 10) {
    recent.push_back(Progress(step, 0.5));
    ASSERT_THAT(harness_.leases->ReportProgress(lease, Of(recent.back())), IsOk());
    harness_.clock.Advance(absl::Seconds(1));
  }
  const auto before = Points();
  ASSERT_EQ(before.size(), 25u);
  harness_.Restart();
  EXPECT_LT(Points().size(), before.size());
  EXPECT_GE(Points().size(), 15u);  // stored every ten seconds
  ASSERT_THAT(harness_.leases->AddRecentProgress(lease, recent), IsOk());
  EXPECT_EQ(Points(), before);
}

TEST_F(StoredCurveTest, CurveOfAJobThatEndedIsReadFromTheStoreAndGoesWithTheJob) {
  const LeaseRef lease = harness_.Running("one");
  for (uint32_t step : {10u, 20u}) {
    const v1::Progress progress = Progress(step, 0.5, std::to_string(step));
    ASSERT_THAT(harness_.leases->ReportProgress(lease, Of(progress)), IsOk());
  }
  ASSERT_THAT(harness_.leases->Finish(lease, {}), IsOk());
  harness_.Restart();
  const auto curve = harness_.queue->GetCurve(lease.job);
  ASSERT_THAT(curve, IsOk());
  EXPECT_EQ(curve->points_size(), 2);
  EXPECT_EQ(curve->previews_size(), 2);
  EXPECT_TRUE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("10").sha256));
  ASSERT_THAT(harness_.queue->Delete(lease.job), IsOk());
  EXPECT_FALSE(harness_.queue->GetCurve(lease.job).ok());
  EXPECT_FALSE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("10").sha256));
}

TEST_F(StoredCurveTest, ScoresOfTestViewsAreKeptWithASuccessAlsoWithoutPoints) {
  std::vector<v1::TestViewScore> scores(2);
  scores[0].set_file("test/r_0.png");
  scores[0].set_psnr(31.25);
  scores[1].set_file(std::string("a:b\0", 4));
  scores[1].set_psnr(-1);
  for (const char* name : {"one", "two"}) {
    const LeaseRef lease = harness_.Running(name);
    if (lease.job.id == "one") {
      ASSERT_THAT(harness_.leases->ReportProgress(lease, Of(Progress(10, 0.5))), IsOk());
    }
    EXPECT_EQ(harness_.queue->GetCurve(lease.job)->test_views_size(), 0);
    JobOutcome outcome;
    outcome.test_views = scores;
    ASSERT_THAT(harness_.leases->Finish(lease, outcome), IsOk());
    harness_.Restart();
    const auto curve = harness_.queue->GetCurve(lease.job);
    ASSERT_THAT(curve, IsOk());
    ASSERT_EQ(curve->test_views_size(), 2);
    for (int i : {0, 1}) EXPECT_TRUE(AreEqual(curve->test_views(i), scores[i]));
    EXPECT_EQ(curve->points_size(), lease.job.id == "one" ? 1 : 0);
  }
}

TEST_F(StoredCurveTest, RecentProgressOfAnotherLeaseIsRefused) {
  LeaseRef lease = harness_.Running("one");
  lease.epoch += 1;
  EXPECT_THAT(harness_.leases->AddRecentProgress(lease, {Progress(10, 0.5)}),
              FailsWith(absl::StatusCode::kFailedPrecondition, reason::kLeaseFenced));
}

}  // namespace
}  // namespace nerf
