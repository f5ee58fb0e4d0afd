#include "engine/train/trainer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "common/error_reason.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/scene/pictures/image_resize.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_training_step.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Records all calls.
class RecordingObserver final : public TrainerObserver {
 public:
  std::vector<TrainProgress> progress;
  std::vector<TrainPreview> previews;
  std::vector<std::string> warnings;
  int n_checkpoints = 0, n_between = 0, n_during_preview = 0;
  std::function<absl::Status()> between = [] { return absl::OkStatus(); };
  std::function<void()> during_output = [] {};

  void OnProgress(const TrainProgress& p) override { progress.push_back(p); }
  absl::Status OnPreview(const TrainPreview& p) override {
    previews.push_back(p);
    during_output();
    return absl::OkStatus();
  }
  void DuringPreview() override { ++n_during_preview; }
  absl::Status OnCheckpointDue() override {
    ++n_checkpoints;
    during_output();
    return absl::OkStatus();
  }
  void OnWarning(const std::string& text) override { warnings.push_back(text); }
  absl::Status BetweenSteps() override {
    ++n_between;
    return between();
  }
};

// A small scene, a fake step that takes 100 ms of a fake clock, and a trainer around them.
struct TrainerFixture {
  Scene scene = SyntheticBallScene(3, 3, 16);
  TrainState state;
  FakeTrainingStep step;
  FakeClock clock;
  ThreadPool pool{1};
  RecordingObserver observer;
  TrainerOptions options;
  std::unique_ptr<Trainer> trainer;

  explicit TrainerFixture(Budget budget = {BudgetKind::kSteps, 50}) {
    state.config.budget = budget;
    state.config.warmup_steps = 10;
    state.geometry = scene.geometry;
    state.reference_camera = scene.test[0].camera;
    step.on_run = [this] { clock.Advance(absl::Milliseconds(100)); };
  }

  absl::StatusOr<TrainOutcome> Run(std::stop_token stop = {}) {
    trainer = std::make_unique<Trainer>(&scene, state, &step, &pool, &clock, options, &observer);
    return trainer->Run(stop);
  }
};

TEST(TrainerTest, RunsExactlyTheBudgetOfSteps) {
  TrainerFixture f;
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(f.step.n_runs, 50);
  EXPECT_EQ(f.trainer->state().step, 50u);
  EXPECT_NEAR(f.trainer->state().seconds, 5.0, 1e-9);
}

TEST(TrainerTest, StepsThatAreTrainedElsewhereArePassedOver) {
  for (const int n_ahead : {0, 3}) {
    TrainerFixture f({BudgetKind::kSteps, 10});
    f.step.share = {1, 4};
    f.options.batches_ahead = n_ahead;
    EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
    EXPECT_EQ(f.step.steps, (std::vector<uint32_t>{1, 5, 9}));
    EXPECT_NEAR(f.step.fractions[1], 0.5, 1e-9) << "the budget is that of all";
    EXPECT_EQ(f.trainer->state().step, 10u);
    EXPECT_EQ(f.observer.progress.back().fraction, 1);
  }
}

TEST(TrainerTest, AShareOfTheStepsStopsAndGoesOnWhereItIsTold) {
  TrainerFixture f({BudgetKind::kSteps, 12});
  f.step.share = {2, 4};
  f.options.stop_after = 7;
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kStoppedAfter));
  EXPECT_EQ(f.trainer->state().step, 7u);
  f.state = f.trainer->state();
  f.options.stop_after = {};
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(f.step.steps, (std::vector<uint32_t>{2, 6, 10}));
  // More tiles than steps: this one has none.
  TrainerFixture none({BudgetKind::kSteps, 2});
  none.step.share = {3, 4};
  EXPECT_THAT(none.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(none.step.n_runs, 0);
  EXPECT_EQ(none.trainer->state().step, 2u);
}

TEST(TrainerTest, AShareHasItsPartOfOtherBudgets) {
  TrainerFixture f({BudgetKind::kSeconds, 2});
  f.step.share = {1, 4};
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(f.step.n_runs, 5) << "a quarter, in steps of 100 ms";
}

// Each 500 steps, none of which is an own one.
TEST(TrainerTest, AShareKeepsItsWeightsForTheWatchdogAsOftenAsTheWhole) {
  TrainerFixture f({BudgetKind::kSteps, 1600});
  f.step.share = {1, 4};
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(f.step.n_saves, 1 + 3);
}

// Each 500 steps until 4000, then at 4500, 5062, 5694, 6405, 7205 and 8105.
TEST(TrainerTest, ALongTrainingIsCopiedForTheWatchdogLessOften) {
  TrainerFixture f({BudgetKind::kSteps, 9000});
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(f.step.n_saves, 1 + 8 + 6);
}

TEST(TrainerTest, SampleBudgetEndsAtTheFirstStepThatReachesIt) {
  TrainerFixture f({BudgetKind::kSamples, 100'000});
  std::vector<int64_t> totals;
  f.observer.between = [&] {
    totals.push_back(f.trainer->state().n_trained);
    return absl::OkStatus();
  };
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  ASSERT_GE(totals.size(), 2u);
  EXPECT_GE(totals.back(), 100'000);
  EXPECT_LT(totals[totals.size() - 2], 100'000);
}

TEST(TrainerTest, SecondsBudgetCountsTrainingAlone) {
  TrainerFixture f({BudgetKind::kSeconds, 3});
  f.options.preview_interval = absl::Seconds(1);
  f.options.checkpoint_interval = absl::Seconds(1);
  f.observer.during_output = [&] { f.clock.Advance(absl::Seconds(20)); };
  f.observer.between = [&] {
    f.clock.Advance(absl::Milliseconds(500));
    return absl::OkStatus();
  };
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_NEAR(f.trainer->state().seconds, 3.0, 0.11);
  EXPECT_GE(f.step.n_runs, 30);
  EXPECT_LE(f.step.n_runs, 31);
}

TEST(TrainerTest, BatchesTellWhichFractionOfTheBudgetIsSpent) {
  TrainerFixture f({BudgetKind::kSteps, 100});
  ASSERT_THAT(f.Run(), IsOk());
  for (uint32_t step = 0; step < 100; ++step) {
    ASSERT_EQ(f.step.fractions[step], step / 100.0);
    ASSERT_EQ(f.step.rate_factors[step], 1);
  }
}

TEST(TrainerTest, SchedulesFollowTheLineOfTheState) {
  TrainerFixture f({BudgetKind::kSteps, 100});
  f.state.step = 50;
  f.state.schedule = {0.5, 0.2};
  ASSERT_THAT(f.Run(), IsOk());
  ASSERT_EQ(f.step.n_runs, 50);
  for (int run = 0; run < 50; ++run)
    ASSERT_NEAR(f.step.fractions[static_cast<size_t>(run)], 0.2 + 0.8 * run / 50, 1e-12);
}

TEST(TrainerTest, InterruptedAndContinuedGivesTheSameBytes) {
  TrainerFixture whole({BudgetKind::kSteps, 120});
  ASSERT_THAT(whole.Run(), IsOk());
  const std::string expected = SerializeTensorFile(whole.trainer->Checkpoint());

  for (uint32_t stop_after : {1u, 16u, 60u, 119u}) {
    TrainerFixture first({BudgetKind::kSteps, 120});
    first.options.stop_after = stop_after;
    ASSERT_THAT(first.Run(), IsOkAndHolds(TrainOutcome::kStoppedAfter));
    const std::string bytes = SerializeTensorFile(first.trainer->Checkpoint());

    const auto file = ParseTensorFile(bytes, "checkpoint");
    ASSERT_THAT(file, IsOk());
    const auto stored = LoadTrainState(*file, "checkpoint");
    ASSERT_THAT(stored, IsOk());
    EXPECT_EQ(stored->state.step, stop_after);
    TrainerFixture second;
    second.state = stored->state;
    ASSERT_THAT(second.step.Load(*file), IsOk());
    ASSERT_THAT(second.Run(), IsOkAndHolds(TrainOutcome::kFinished));
    EXPECT_TRUE(SerializeTensorFile(second.trainer->Checkpoint()) == expected) << stop_after;
    EXPECT_EQ(second.step.n_runs, 120 - static_cast<int>(stop_after));
  }
}

TEST(TrainerTest, BatchesDrawnAheadGiveTheSameBytes) {
  // The fake step's trained samples depend on its weights, so the size of a batch is known
  // only after the step before it. Step 30 fails once, so there is a recovery on the way.
  const auto bytes = [](int batches_ahead, uint32_t stop_after) {
    const auto prepare = [&](TrainerFixture* f) {
      f->options.batches_ahead = batches_ahead;
      f->step.loss = [](const PixelBatch& batch) { return batch.step == 30 ? NAN : 0.005; };
    };
    TrainerFixture first({BudgetKind::kSteps, 120});
    prepare(&first);
    first.options.stop_after = stop_after;
    EXPECT_THAT(first.Run(), IsOk());
    TrainerFixture second({BudgetKind::kSteps, 120});
    prepare(&second);
    second.state = first.trainer->state();
    EXPECT_THAT(second.step.Load(first.trainer->Checkpoint()), IsOk());
    EXPECT_THAT(second.Run(), IsOkAndHolds(TrainOutcome::kFinished));
    return SerializeTensorFile(second.trainer->Checkpoint());
  };
  const std::string expected = bytes(0, 60);
  for (const int batches_ahead : {1, 2, 7}) {
    EXPECT_TRUE(bytes(batches_ahead, 60) == expected) << batches_ahead << " ahead";
  }
}

TEST(TrainerTest, PicturesGoFromCoarseToFineByTheShareOfTheBudget) {
  const auto prepare = [](int batches_ahead, TrainerFixture* f) {
    Ngp(f->state.config).coarse_pictures = 0.5f;
    f->options.batches_ahead = batches_ahead;
    f->step.loss = [f](const PixelBatch& batch) {
      // Pictures of 16 pixels a side.
      int32_t last = 0;
      for (const Pixel& pixel : batch.pixels) last = std::max({last, pixel.x, pixel.y});
      EXPECT_EQ(last, (16 >> batch.picture_level) - 1) << batch.step;
      EXPECT_EQ(f->step.picture_levels.back(), batch.picture_level);
      return 0.005;
    };
  };
  std::string expected;
  for (const int batches_ahead : {0, 1, 3}) {
    TrainerFixture f({BudgetKind::kSteps, 40});
    prepare(batches_ahead, &f);
    EXPECT_THAT(f.Run(), IsOk());
    std::vector<int> levels(40);
    std::fill_n(levels.begin(), 20, 1);
    std::fill_n(levels.begin(), 10, 2);
    EXPECT_EQ(f.step.picture_levels, levels);
    const std::string bytes = SerializeTensorFile(f.trainer->Checkpoint());
    if (batches_ahead == 0) expected = bytes;
    EXPECT_TRUE(bytes == expected) << batches_ahead;
    for (const uint32_t stop_after : {5, 10, 11, 20, 30}) {
      TrainerFixture first({BudgetKind::kSteps, 40}), second;
      prepare(batches_ahead, &first);
      first.options.stop_after = stop_after;
      ASSERT_THAT(first.Run(), IsOkAndHolds(TrainOutcome::kStoppedAfter));
      prepare(batches_ahead, &second);
      second.state = first.trainer->state();
      ASSERT_THAT(second.step.Load(first.trainer->Checkpoint()), IsOk());
      ASSERT_THAT(second.Run(), IsOkAndHolds(TrainOutcome::kFinished));
      EXPECT_TRUE(SerializeTensorFile(second.trainer->Checkpoint()) == expected) << stop_after;
    }
  }
}

// A clock that moves by a second each time it is read.
class TickingClock final : public Clock {
 public:
  SteadyTime Now() const override { return SteadyTime(absl::Seconds(++n_reads_)); }
  absl::Time WallNow() const override { return absl::UnixEpoch(); }

 private:
  mutable std::atomic<int> n_reads_ = 0;
};

TEST(TrainerTest, StallFractionIsTheShareOfTheStepThatWaitsForItsBatch) {
  // A step reads the clock four times: at its begin, before and after the batch, at its end.
  TrainerFixture f({BudgetKind::kSteps, 10});
  const TickingClock clock;
  for (const int batches_ahead : {0, 2}) {
    f.options.batches_ahead = batches_ahead;
    f.observer.progress.clear();
    Trainer trainer(&f.scene, f.state, &f.step, &f.pool, &clock, f.options, &f.observer);
    ASSERT_THAT(trainer.Run({}), IsOk());
    ASSERT_FALSE(f.observer.progress.empty());
    for (const TrainProgress& progress : f.observer.progress) {
      EXPECT_NEAR(progress.stall_fraction, 1 / 3.0, 1e-9);
    }
  }
}

TEST(TrainerTest, FreshTrainerCanBeSavedAndLoaded) {
  TrainerFixture f;
  f.options.stop_after = 0;
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kStoppedAfter));
  EXPECT_EQ(f.step.n_runs, 0);
  EXPECT_THAT(LoadTrainState(f.trainer->Checkpoint(), "f"), IsOk());
}

TEST(TrainerTest, AStepThatDrawsItsOwnPixelsIsToldTheirNumberAlone) {
  for (bool draws : {false, true}) {
    TrainerFixture f({BudgetKind::kSteps, 5});
    f.step.draws_pixels = draws;
    uint32_t n_steps = 0;
    f.step.loss = [&](const PixelBatch& batch) {
      EXPECT_EQ(batch.step, n_steps++);
      EXPECT_GT(batch.n_pixels, 0);
      EXPECT_EQ(batch.pixels.size(), draws ? 0u : static_cast<size_t>(batch.n_pixels));
      EXPECT_EQ(batch.targets.size(), batch.pixels.size());
      return 0.005;
    };
    EXPECT_THAT(f.Run(), IsOk());
    EXPECT_EQ(n_steps, 5u);
  }
}

// Three views of 16x16 pixels have 48 runs.
TEST(TrainerTest, FiguresAreMeansOverAllPixelsWhereSomeRunsAloneAreDrawn) {
  TrainerFixture f({BudgetKind::kSteps, 10});
  f.scene.shown_runs = {0, 5, 47};
  f.step.loss = [&](const PixelBatch& batch) {
    for (const Pixel& pixel : batch.pixels) {
      const uint32_t run = 16 * pixel.view + pixel.y;
      EXPECT_TRUE(run == 0 || run == 5 || run == 47) << run;
    }
    return 0.005;
  };
  ASSERT_THAT(f.Run(), IsOk());
  const TrainProgress& last = f.observer.progress.back();
  EXPECT_NEAR(last.loss, 0.005 * 3 / 48, 1e-12);
  EXPECT_NEAR(last.psnr_train, -10 * std::log10(0.005 * 3 / 48), 1e-9);
}

TEST(TrainerTest, AnotherSeedGivesOtherBytes) {
  TrainerFixture a, b;
  b.state.config.seed = 2;
  ASSERT_THAT(a.Run(), IsOk());
  ASSERT_THAT(b.Run(), IsOk());
  EXPECT_NE(a.trainer->Checkpoint().tensors["weights"].bytes,
            b.trainer->Checkpoint().tensors["weights"].bytes);
}

TEST(TrainerTest, ProgressComesOnceASecondAndAtTheEnd) {
  TrainerFixture f({BudgetKind::kSteps, 25});  // 2.5 seconds
  ASSERT_THAT(f.Run(), IsOk());
  ASSERT_EQ(f.observer.progress.size(), 3u);
  const TrainProgress& first = f.observer.progress[0];
  EXPECT_EQ(first.step, 10u);
  EXPECT_NEAR(first.seconds, 1.0, 1e-9);
  EXPECT_NEAR(first.fraction, 0.4, 1e-9);
  const double over = f.step.TimeFraction(0.4);  // later steps of the fake take longer
  EXPECT_NEAR(first.eta_seconds, (1 - over) / over, 1e-9);
  EXPECT_NEAR(first.loss, 0.005, 1e-12);
  EXPECT_NEAR(first.psnr_train, -10 * std::log10(0.005), 1e-9);
  EXPECT_NEAR(first.samples_per_second, first.samples, 1e-6);
  EXPECT_NEAR(first.rays_per_second, first.rays, 1e-6);
  EXPECT_EQ(f.observer.progress[2].step, 25u);
  EXPECT_EQ(f.observer.progress[2].fraction, 1);
}

TEST(TrainerTest, ProgressSaysTheSizesOfPicturesAndTheOccupiedShare) {
  TrainerFixture f;
  f.scene.picture_width = 4000;
  f.scene.picture_height = 3000;
  f.step.occupied = 0.25;
  ASSERT_THAT(f.Run(), IsOk());
  const TrainProgress& last = f.observer.progress.back();
  EXPECT_EQ(last.picture_width, 4000);
  EXPECT_EQ(last.picture_height, 3000);
  EXPECT_EQ(last.trained_width, 16);
  EXPECT_EQ(last.trained_height, 16);
  EXPECT_EQ(last.evaluated_width, 16);
  EXPECT_EQ(last.evaluated_height, 16);
  EXPECT_EQ(last.occupied_share, 0.25);
}

TEST(TrainerTest, FiguresThatAreNotKnownAreLeftOutOfProgress) {
  TrainerFixture f;
  f.scene.test.clear();
  f.step.occupied = 1;
  ASSERT_THAT(f.Run(), IsOk());
  const TrainProgress& last = f.observer.progress.back();
  EXPECT_TRUE(std::isnan(last.picture_width));
  EXPECT_TRUE(std::isnan(last.evaluated_width));
  EXPECT_TRUE(std::isnan(last.occupied_share)) << "all of it is occupied";
}

TEST(TrainerTest, PreviewIsAlwaysTheMiddleTestView) {
  TrainerFixture f({BudgetKind::kSteps, 250});  // 25 seconds
  ASSERT_THAT(f.Run(), IsOk());
  ASSERT_EQ(f.observer.previews.size(), 2u);
  EXPECT_EQ(f.observer.previews[0].step, 100u);
  EXPECT_EQ(f.observer.previews[0].image.width, 16);
  // An empty field shows white; the middle view's picture on white gives the score.
  EXPECT_EQ(f.observer.previews[0].image.pixels, std::vector<uint8_t>(16 * 16 * 3, 255));
  EXPECT_GT(f.observer.previews[0].psnr, 1);
  EXPECT_EQ(f.observer.previews[0].psnr, f.observer.previews[1].psnr);
}

TEST(TrainerTest, PreviewsOfLargeViewsAreReduced) {
  TrainerFixture f;
  ASSERT_THAT(f.Run(), IsOk());
  View& view = f.scene.test[f.scene.test.size() / 2];
  const double psnr = f.trainer->Preview({})->psnr;
  view.camera = Resized(view.camera, 1024, 1024);
  view.image = AreaResized(view.image, 1024, 1024);
  const std::optional<TrainPreview> preview = f.trainer->Preview({});
  ASSERT_TRUE(preview.has_value());
  EXPECT_EQ(preview->image.width, 512);
  EXPECT_EQ(preview->image.height, 512);
  EXPECT_NEAR(preview->psnr, psnr, 1e-6);  // each pixel of the small picture is a block in both
  EXPECT_GT(f.observer.n_during_preview, 0);
}

TEST(TrainerTest, PreviewsThatTakeLongComeLessOften) {
  TrainerFixture f({BudgetKind::kSteps, 1000});  // 100 seconds of training
  // Each preview takes 4 s, so that the next one is due 40 s later, not 10.
  f.observer.during_output = [&] { f.clock.Advance(absl::Seconds(4)); };
  ASSERT_THAT(f.Run(), IsOk());
  EXPECT_EQ(f.observer.previews.size(), 3u);  // at 10, 50 and 90 seconds of training
}

TEST(TrainerTest, NoTestViewsNoPreview) {
  TrainerFixture f({BudgetKind::kSteps, 250});
  f.scene.test.clear();
  ASSERT_THAT(f.Run(), IsOk());
  EXPECT_TRUE(f.observer.previews.empty());
  EXPECT_EQ(f.trainer->Preview({}), std::nullopt);
}

TEST(TrainerTest, CheckpointIsDueAtItsInterval) {
  TrainerFixture f({BudgetKind::kSteps, 200});
  f.options.checkpoint_interval = absl::Seconds(3);
  ASSERT_THAT(f.Run(), IsOk());
  EXPECT_EQ(f.observer.n_checkpoints, 6);
}

TEST(TrainerTest, CheckpointIsDueAfterAFifthOfAShortBudget) {
  TrainerFixture f({BudgetKind::kSteps, 100});
  f.options.checkpoint_interval = absl::Seconds(30);
  ASSERT_THAT(f.Run(), IsOk());
  EXPECT_EQ(f.observer.n_checkpoints, 4);  // at 2, 4, 6 and 8 seconds
}

TEST(TrainerTest, CheckpointsOfAShortBudgetTakeFewPercentOfTheTime) {
  TrainerFixture f({BudgetKind::kSteps, 1000});
  f.options.checkpoint_interval = absl::Seconds(300);
  f.observer.during_output = [&] { f.clock.Advance(absl::Milliseconds(600)); };
  f.options.preview_interval = absl::Seconds(1000);
  ASSERT_THAT(f.Run(), IsOk());
  // At 20 seconds, and then when fifty pauses are over.
  EXPECT_EQ(f.observer.n_checkpoints, 3);
}

TEST(TrainerTest, StopEndsAtTheNextStepBoundary) {
  TrainerFixture f({BudgetKind::kSteps, 1000});
  std::stop_source source;
  f.observer.between = [&] {
    if (f.observer.n_between == 7) source.request_stop();
    return absl::OkStatus();
  };
  EXPECT_THAT(f.Run(source.get_token()), IsOkAndHolds(TrainOutcome::kStopped));
  EXPECT_EQ(f.step.n_runs, 7);
}

TEST(TrainerTest, ObserverErrorEndsTheTraining) {
  TrainerFixture f;
  f.observer.between = [] { return absl::UnavailableError("disk full"); };
  EXPECT_THAT(f.Run(), StatusIs(absl::StatusCode::kUnavailable, "disk full"));
  EXPECT_EQ(f.step.n_runs, 1);
}

TEST(TrainerTest, NotFiniteLossGoesBackToTheLastGoodWeightsAtHalfTheRate) {
  TrainerFixture f({BudgetKind::kSteps, 40});
  bool failed = false;
  f.step.loss = [&](const PixelBatch& batch) {
    if (batch.step != 20 || failed) return 0.005;
    failed = true;
    return std::nan("");
  };
  EXPECT_THAT(f.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(f.step.n_loads, 1);
  EXPECT_EQ(f.step.n_reopened, 0);
  ASSERT_EQ(f.observer.warnings.size(), 1u);
  EXPECT_NE(f.observer.warnings[0].find("not finite"), std::string::npos);
  // Steps count on: the budget is kept.
  EXPECT_EQ(f.step.n_runs, 40);
  EXPECT_EQ(f.step.rate_factors[19], 1);
  EXPECT_EQ(f.step.rate_factors[21], 0.5f);
  for (const TrainProgress& progress : f.observer.progress) {
    EXPECT_TRUE(std::isfinite(progress.loss));
  }
}

TEST(TrainerTest, LossThatStaysNotFiniteFailsAfterThreeRecoveries) {
  TrainerFixture f({BudgetKind::kSteps, 100});
  f.step.loss = [](const PixelBatch& batch) { return batch.step < 20 ? 0.005 : INFINITY; };
  EXPECT_THAT(f.Run(), FailsWith(absl::StatusCode::kAborted, reason::kTrainingDiverged));
  EXPECT_EQ(f.step.n_loads, 3);
  EXPECT_EQ(f.step.n_runs, 24);
}

TEST(TrainerTest, GrowingLossIsRecoveredFrom) {
  TrainerFixture f({BudgetKind::kSteps, 400});
  f.step.loss = [](const PixelBatch& batch) {
    return batch.step >= 200 && batch.step < 280 ? 0.5 : 0.005;
  };
  EXPECT_THAT(f.Run(), IsOk());
  EXPECT_GE(f.step.n_loads, 1);
  EXPECT_EQ(f.trainer->state().watchdog.n_recoveries, f.step.n_loads);
}

TEST(TrainerTest, EmptyGridIsOpenedFirstAndWeightsRestoredNext) {
  TrainerFixture f({BudgetKind::kSteps, 60});
  f.observer.between = [&] {
    if (f.trainer->state().step == 20 || f.trainer->state().step == 40) f.step.occupied = 0;
    return absl::OkStatus();
  };
  EXPECT_THAT(f.Run(), IsOk());
  EXPECT_EQ(f.step.n_reopened, 2);
  EXPECT_EQ(f.step.n_loads, 1);
  EXPECT_EQ(f.trainer->state().watchdog.rate_factor, 0.5f);
}

TEST(TrainerTest, GridThatStaysEmptyFailsWithItsReason) {
  TrainerFixture f({BudgetKind::kSteps, 500});
  f.observer.between = [&] {
    f.step.occupied = 0;
    return absl::OkStatus();
  };
  EXPECT_THAT(f.Run(), FailsWith(absl::StatusCode::kAborted, "GRID_EMPTY"));
  EXPECT_EQ(f.step.n_reopened, 3);
}

TEST(TrainerTest, RecoveriesAreCountedAcrossAResume) {
  TrainerFixture f({BudgetKind::kSteps, 100});
  f.state.watchdog.n_recoveries = 3;
  f.step.loss = [](const PixelBatch&) { return NAN; };
  EXPECT_THAT(f.Run(), FailsWith(absl::StatusCode::kAborted, reason::kTrainingDiverged));
  EXPECT_EQ(f.step.n_runs, 1);
}

}  // namespace
}  // namespace nerf
