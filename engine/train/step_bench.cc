#include "engine/train/step_bench.h"

#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "engine/train/batch/pixel_sampler.h"

namespace nerf {
namespace {

struct Training {
  TrainConfig config;
  std::unique_ptr<TrainingStep> step;
  std::unique_ptr<PixelSampler> sampler;
  PixelBatch batch;
  uint32_t n_steps = 0;
};

}  // namespace

Bench StepBench(std::string name, const Method& method, const TrainConfig& config,
                const Scene& scene, int n_before) {
  const auto prepare = [&method, config, &scene,
                        n_before](ThreadPool* pool) -> std::function<BenchWork()> {
    auto training = std::make_shared<Training>();
    training->config = config;
    training->config.warmup_steps = 0;
    training->config.initial_step_scale = 1;
    auto step = method.NewStep({training->config, scene.geometry, scene, std::nullopt, pool});
    NERF_CHECK(step.ok());
    training->step = *std::move(step);
    training->sampler =
        std::make_unique<PixelSampler>(scene.train, Background::kRandom, training->config.seed);
    auto run = [training, pool]() -> BenchWork {
      Training& t = *training;
      t.sampler->Fill(t.n_steps++, t.step->NextPixels(0), pool, &t.batch);
      return {.items = static_cast<double>(t.step->Run(t.batch).n_trained)};
    };
    for (int i = 0; i < n_before; ++i) run();
    return run;
  };
  return {std::move(name), "trained samples", prepare};
}

Bench StepBench(std::string name, const Method& method, const Scene& scene, int n_before) {
  return StepBench(std::move(name), method, method.description().Defaults(), scene, n_before);
}

}  // namespace nerf
