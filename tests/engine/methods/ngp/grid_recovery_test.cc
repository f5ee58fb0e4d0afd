// Trainings whose occupancy grid runs empty, with the real step: whether the watchdog sees it, and
// what becomes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/methods/ngp/steps.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/train/trainer.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

class Warnings final : public TrainerObserver {
 public:
  std::vector<std::string> texts;
  void OnWarning(const std::string& text) override { texts.push_back(text); }
};

// A training of the ball, small enough for a test.
struct Training {
  Scene scene = SyntheticBallScene(6, 1, 24);
  TrainState state;
  Warnings observer;
  std::unique_ptr<TrainingStep> step;
  std::unique_ptr<Trainer> trainer;

  Training() {
    state.config = TinyConfig();
    // So short that a field of density 1 lies below the grid's threshold, as with a real scene's.
    state.config.step = 0.02f;
    state.config.warmup_steps = 10;
  }

  void Prepare(double n_steps) {
    state.config.budget = {BudgetKind::kSteps, n_steps};
    state.geometry = EffectiveGeometry(state.config, scene.geometry);
    state.reference_camera = scene.train[0].camera;
    step = NewNgpCpuStep(state.config, state.geometry, &pool_, scene.train);
  }
  // Fills tensors of the prepared step with zeros.
  void Clear(const std::vector<std::string>& names) {
    TensorFile file;
    step->Save(&file);
    for (const std::string& name : names) {
      std::vector<uint8_t>& bytes = file.tensors.at(name).bytes;
      std::fill(bytes.begin(), bytes.end(), 0);
    }
    ASSERT_THAT(step->Load(file), IsOk());
  }
  absl::StatusOr<TrainOutcome> Run() {
    trainer = std::make_unique<Trainer>(&scene, state, step.get(), &pool_, &clock_,
                                        TrainerOptions(), &observer);
    return trainer->Run({});
  }

 private:
  ThreadPool pool_{1};
  FakeClock clock_;
};

// A learning rate that is far too high can leave no active hidden unit, so the density is the same
// everywhere. The first update sets every cell, and none is above the mean. Later updates probe a
// share of the cells, which then lie above the decayed rest.
TEST(GridRecoveryTest, FieldOfOneDensityEmptiesTheGridAtTheFirstUpdate) {
  Training training;
  training.Prepare(60);
  training.Clear({"field.density_mlp.0"});
  EXPECT_THAT(training.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  ASSERT_EQ(training.observer.texts.size(), 1u);
  EXPECT_NE(training.observer.texts[0].find("step 5: rays meet no sample"), std::string::npos);
  EXPECT_NE(training.observer.texts[0].find("opening the occupancy grid again"), std::string::npos);
  EXPECT_EQ(training.trainer->state().watchdog.rate_factor, 1);
  EXPECT_GT(training.step->OccupiedFraction(), 0);
}

// The weights are good; only the grid was pruned too far.
TEST(GridRecoveryTest, EmptiedGridOfALivingFieldIsOpenedAndTheTrainingEndsWell) {
  Training training;
  training.Prepare(200);
  training.Clear({"occupancy.bits", "occupancy.values"});
  ASSERT_EQ(training.step->OccupiedFraction(), 0);
  EXPECT_THAT(training.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_EQ(training.observer.texts.size(), 1u);
  EXPECT_EQ(training.trainer->state().watchdog.n_recoveries, 1);
  EXPECT_EQ(training.trainer->state().watchdog.rate_factor, 1);
  EXPECT_GT(training.step->OccupiedFraction(), 0.001);
  EXPECT_LT(training.step->OccupiedFraction(), 0.5);
}

TEST(GridRecoveryTest, CamerasThatLookAwayFromTheBoxFailInsteadOfTrainingOnNothing) {
  Training training;
  for (View& view : training.scene.train) {
    for (auto& row : view.camera.camera_to_world.m) {
      row[0] = -row[0];
      row[2] = -row[2];  // half a turn about the camera's up
    }
  }
  training.Prepare(10000);
  EXPECT_THAT(training.Run(), FailsWith(absl::StatusCode::kAborted, "GRID_EMPTY"));
  EXPECT_EQ(training.trainer->state().step, 64u) << "4 times 16 steps without a sample";
}

// With a budget in samples the training would never end.
TEST(GridRecoveryTest, ThresholdThatNoSampleReachesFailsInsteadOfTrainingForEver) {
  Training training;
  training.state.config.alpha_threshold = 0.5f;
  training.Prepare(1);
  training.state.config.budget = {BudgetKind::kSamples, 1000};
  EXPECT_THAT(training.Run(), FailsWith(absl::StatusCode::kAborted, "GRID_EMPTY"));
  EXPECT_NE(training.observer.texts[0].find("alpha_threshold"), std::string::npos);
}

// The threshold of a cell is at most the mean of all, and density sinks unevenly: there are always
// cells above it.
TEST(GridRecoveryTest, PicturesOfNothingLeaveAGridThatIsNotEmpty) {
  Training training;
  for (View& view : training.scene.train) {
    std::fill(view.image.pixels.begin(), view.image.pixels.end(), 0);
  }
  training.state.config.background = Background::kRandom;
  training.Prepare(500);
  EXPECT_THAT(training.Run(), IsOkAndHolds(TrainOutcome::kFinished));
  EXPECT_TRUE(training.observer.texts.empty());
  EXPECT_GT(training.step->OccupiedFraction(), 0);
}

}  // namespace
}  // namespace nerf
