// Pixels that are drawn by their errors: the errors are those of the rays, and the training is as
// repeatable as any.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/train/batch/picture_errors.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/trainer.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

TrainConfig ErrorConfig() {
  TrainConfig config = TinyConfig();
  Ngp(config).error_share = 0.6f;
  return config;
}

// Colors lie between 0 and 1, so a ray's errors with a black and with a white target add up to 1.
TEST(ErrorShareTest, ErrorsAreThoseOfTheRays) {
  const Scene scene = SyntheticBallScene(3, 0, 32);
  ThreadPool pool(2);
  const PixelSampler sampler(scene.train, Background::kBlack, 1);
  PixelBatch batch;
  sampler.Fill(0, 200, &pool, &batch);
  const auto errors = [&](float target) {
    const auto step = NewNgpCpuStep(ErrorConfig(), scene.geometry, &pool, scene.train);
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    PixelBatch with = batch;
    for (Vec3& color : with.targets) color = {target, target, target};
    const StepResult result = step->Run(with);
    EXPECT_GT(result.squared_error, 0);
    const auto found = step->Errors()->errors();
    return std::vector<float>(found.begin(), found.end());
  };
  const std::vector<float> black = errors(0), white = errors(1);
  std::vector<int> n_rays(black.size());
  for (const Pixel& pixel : batch.pixels) ++n_rays[ErrorCell(pixel, {32, 32})];
  const float initial = PictureErrors(scene.train, 0.6f).errors()[0];
  int n_differ = 0;
  for (size_t i = 0; i < black.size(); ++i) {
    // Each ray leaves 7/8 of the mean before it, whose two add up to 2 * initial.
    const double left = std::pow(7.0 / 8, n_rays[i]);
    EXPECT_NEAR(black[i] + white[i], 2 * initial * left + (1 - left), 1e-5) << n_rays[i];
    n_differ += black[i] != white[i];
  }
  EXPECT_GT(n_differ, 50);
}

struct Run {
  int n_threads = 1;
  int batches_ahead = 0;
  std::optional<uint32_t> stop_after = std::nullopt;
  std::string resume = "";  // a checkpoint
};

// The checkpoint of a training of 40 steps.
std::string Train(const TrainConfig& config, const Run& run) {
  const Scene scene = SyntheticBallScene(4, 0, 24);
  TrainState state;
  state.config = config;
  state.config.budget = {BudgetKind::kSteps, 40};
  state.geometry = scene.geometry;
  state.reference_camera = scene.train[0].camera;
  ThreadPool pool(run.n_threads);
  const auto step = NewNgpCpuStep(state.config, state.geometry, &pool, scene.train);
  if (!run.resume.empty()) {
    const absl::StatusOr<TensorFile> file = ParseTensorFile(run.resume, "resume");
    EXPECT_THAT(file, IsOk());
    EXPECT_THAT(step->Load(*file), IsOk());
    state = LoadTrainState(*file, "resume")->state;
  }
  TrainerOptions options;
  options.stop_after = run.stop_after;
  options.batches_ahead = run.batches_ahead;
  const FakeClock clock;
  TrainerObserver observer;
  Trainer trainer(&scene, state, step.get(), &pool, &clock, options, &observer);
  EXPECT_THAT(trainer.Run({}), IsOk());
  return SerializeTensorFile(trainer.Checkpoint());
}

void ExpectTheSameBytes(const TrainConfig& config) {
  const std::string expected = Train(config, {});
  for (const int n_threads : {2, 5})
    EXPECT_TRUE(Train(config, {.n_threads = n_threads}) == expected) << n_threads;
  EXPECT_TRUE(Train(config, {.batches_ahead = 3}) == expected);
  for (const uint32_t stop_after : {1, 13, 20, 39}) {
    const std::string part = Train(config, {.stop_after = stop_after});
    EXPECT_TRUE(Train(config, {.n_threads = 2, .resume = part}) == expected) << stop_after;
  }
}

TEST(ErrorShareTest, TheSameBytesOnAnyNumberOfThreadsStoppedAndResumed) {
  ExpectTheSameBytes(ErrorConfig());
  EXPECT_FALSE(Train(ErrorConfig(), {}) == Train(TinyConfig(), {}));
}

TEST(ErrorShareTest, AlsoFromCoarseToFineWithExposuresAndPoses) {
  TrainConfig config = ErrorConfig();
  Ngp(config).coarse_pictures = 0.6f;
  Ngp(config).exposure_rate = 0.1f;
  Ngp(config).pose_rate = 0.1f;
  ExpectTheSameBytes(config);
}

TEST(ErrorShareTest, ACheckpointWithoutErrorsIsRefusedByTheirName) {
  const Scene scene = SyntheticBallScene(3, 0, 16);
  ThreadPool pool(1);
  const auto step = NewNgpCpuStep(ErrorConfig(), scene.geometry, &pool, scene.train);
  const TensorFile before = Saved(*step);
  TensorFile file = before;
  file.tensors.erase("view.errors");
  EXPECT_THAT(step->Load(file), StatusIs(absl::StatusCode::kInvalidArgument, "view.errors"));
  EXPECT_TRUE(SameContents(Saved(*step), before));
  TensorFile model;
  step->SaveModel(&model);
  EXPECT_EQ(model.tensors.count("view.errors"), 0u) << "models have no use for them";
}

}  // namespace
}  // namespace nerf
