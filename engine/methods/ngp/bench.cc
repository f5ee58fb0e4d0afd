#include "engine/methods/ngp/bench.h"

#include <memory>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/pixel_sampler.h"

namespace nerf {
namespace {

// A whole step of method ngp on a small scene, past the first hundreds of steps, where the
// occupancy grid has found the ball.
std::function<BenchWork()> PrepareTrainingStep(const Scene& scene, Sampler sampler,
                                               ThreadPool* pool) {
  constexpr uint32_t kStepsBefore = 200;
  struct Training {
    TrainConfig config;
    std::unique_ptr<TrainingStep> step;
    std::unique_ptr<PixelSampler> sampler;
    PixelBatch batch;
    uint32_t n_steps = 0;
  };
  auto training = std::make_shared<Training>();
  Training& t = *training;
  t.config.warmup_steps = 0;
  t.config.initial_step_scale = 1;
  t.config.distortion = 0;
  if (sampler == Sampler::kProposals) {
    Ngp(t.config).sampler = sampler;
    t.step = NewNgpProposalStep(t.config, scene.geometry, pool, scene.train);
  } else {
    t.step = NewNgpCpuStep(t.config, scene.geometry, pool, scene.train);
  }
  t.sampler = std::make_unique<PixelSampler>(scene.train, Background::kRandom, t.config.seed);
  auto run = [training, pool]() -> BenchWork {
    Training& now = *training;
    now.sampler->Fill(now.n_steps++, now.step->NextPixels(0), pool, &now.batch);
    return {.items = static_cast<double>(now.step->Run(now.batch).n_trained)};
  };
  for (uint32_t i = 0; i < kStepsBefore; ++i) run();
  return run;
}

// One that probes as those of most steps do, where every block of the grid holds something.
std::function<BenchWork()> PrepareOccupancyUpdate(const Scene& scene, ThreadPool* pool) {
  constexpr uint32_t kStep = 1024;
  auto state = std::make_shared<NgpState>(TrainConfig(), scene.geometry);
  return [state, pool]() -> BenchWork {
    state->occupancy.Update(ProbedDensity(state->Network()), kStep, pool);
    return {.items = static_cast<double>(state->occupancy.values().size())};
  };
}

std::function<BenchWork()> PrepareEmptyDistances(const Scene& scene) {
  auto state = std::make_shared<NgpState>(TrainConfig(), scene.geometry);
  return [state]() -> BenchWork {
    const std::vector<uint8_t> reaches = EmptyDistances(state->occupancy.grid());
    return {.items = static_cast<double>(reaches.size())};
  };
}

}  // namespace

std::vector<Bench> NgpBenches(const Scene& scene) {
  return {{"occupancy_update", "cells",
           [&scene](ThreadPool* pool) { return PrepareOccupancyUpdate(scene, pool); }},
          {"empty_distances", "blocks",
           [&scene](ThreadPool* /*pool*/) { return PrepareEmptyDistances(scene); }},
          {"training_step", "trained samples",
           [&scene](ThreadPool* pool) { return PrepareTrainingStep(scene, Sampler::kGrid, pool); }},
          {"proposals_step", "trained samples", [&scene](ThreadPool* pool) {
             return PrepareTrainingStep(scene, Sampler::kProposals, pool);
           }}};
}

}  // namespace nerf
