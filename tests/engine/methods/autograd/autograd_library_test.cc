#include <dlfcn.h>

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/method.h"
#include "gtest/gtest.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

// The library as nerf-engine finds and opens it.
TEST(AutogradLibraryTest, OpenedLibraryMakesAStepThatTrains) {
  void* library = dlopen((BinDir() + "/../lib/libnerf_autograd.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using Factory = void (*)(const StepRequest*, absl::StatusOr<std::unique_ptr<TrainingStep>>*);
  const auto factory = reinterpret_cast<Factory>(dlsym(library, "NerfNewAutogradStep"));
  ASSERT_NE(factory, nullptr) << dlerror();
  ThreadPool pool(2);
  TrainConfig config = TinyConfig();
  config.method = "ngp-autograd";
  const Scene scene = SyntheticBallScene(2, 0, 16);
  const StepRequest request{config, scene.geometry, scene, std::nullopt, &pool};
  absl::StatusOr<std::unique_ptr<TrainingStep>> step = absl::InternalError("no step was made");
  factory(&request, &step);
  ASSERT_THAT(step, IsOk());
  PixelBatch batch;
  PixelSampler(scene.train, Background::kBlack, config.seed)
      .Fill(0, (*step)->NextPixels(0), &pool, &batch);
  EXPECT_GT((*step)->Run(batch).n_trained, 0);
}

}  // namespace
}  // namespace nerf
