#include "engine/tool/bench_registry.h"

#include <memory>

#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/tool/op_benches.h"
#include "engine/tool/synthetic_scene.h"
#include "engine/train/checkpoint.h"
#include "engine/train/ray_count_controller.h"
#include "engine/train/ray_sampler.h"

namespace nerf {
namespace {

// A whole step of method ngp on a small scene, after some hundred steps: the occupancy grid is then
// as sparse as in most of a training.
std::function<BenchWork()> PrepareTrainingStep(ThreadPool* pool) {
  constexpr uint32_t kStepsBefore = 200;
  struct Training {
    Scene scene = SyntheticBallScene(16, 0, 128);
    TrainConfig config;
    std::unique_ptr<TrainingStep> step;
    std::unique_ptr<RaySampler> sampler;
    std::unique_ptr<RayCountController> ray_count;
    Batch batch;
    uint32_t n_steps = 0;
  };
  auto training = std::make_shared<Training>();
  Training& t = *training;
  t.step = NewNgpCpuStep(t.config, t.scene.geometry, pool);
  t.sampler = std::make_unique<RaySampler>(t.scene.train, Background::kRandom,
                                           t.scene.geometry.near, t.config.seed);
  t.ray_count = std::make_unique<RayCountController>(
      RayCountOptions{t.config.initial_rays, t.config.max_rays});
  auto run = [training, pool]() -> BenchWork {
    Training& now = *training;
    now.sampler->Fill(now.n_steps++, now.ray_count->n_rays(), pool, &now.batch);
    now.batch.learning_rate = now.config.learning_rate;
    now.batch.target_samples = now.config.target_samples;
    const StepResult result = now.step->Run(now.batch);
    now.ray_count->Update(result, now.config.target_samples);
    return {.items = static_cast<double>(result.n_trained)};
  };
  for (uint32_t i = 0; i < kStepsBefore; ++i) run();
  return run;
}

std::function<BenchWork()> PrepareSampleRays(ThreadPool* pool) {
  struct Sampling {
    Scene scene = SyntheticBallScene(16, 0, 128);
    RaySampler sampler{scene.train, Background::kRandom, scene.geometry.near, 1};
    Batch batch;
    uint32_t n_steps = 0;
  };
  auto sampling = std::make_shared<Sampling>();
  return [sampling, pool]() -> BenchWork {
    constexpr int kRays = 1 << 14;
    sampling->sampler.Fill(sampling->n_steps++, kRays, pool, &sampling->batch);
    return {.items = kRays};
  };
}

// A grid update like those of most steps, on a grid whose blocks are all occupied.
std::function<BenchWork()> PrepareOccupancyUpdate(ThreadPool* pool) {
  constexpr uint32_t kStep = 1024;
  auto state = std::make_shared<NgpState>(TrainConfig(), SyntheticBallScene(1, 0, 8).geometry);
  return [state, pool]() -> BenchWork {
    state->occupancy.Update(ProbedDensity(state->Network()), kStep, pool);
    return {.items = static_cast<double>(state->occupancy.values().size())};
  };
}

std::function<BenchWork()> PrepareEmptyDistances(ThreadPool* /*pool*/) {
  auto state = std::make_shared<NgpState>(TrainConfig(), SyntheticBallScene(1, 0, 8).geometry);
  return [state]() -> BenchWork {
    const std::vector<uint8_t> reaches = EmptyDistances(state->occupancy.grid());
    return {.items = static_cast<double>(reaches.size())};
  };
}

}  // namespace

void BenchWork::Add(const BenchWork& other) {
  items += other.items;
  bytes += other.bytes;
  flops += other.flops;
  gathers += other.gathers;
}

std::vector<Bench> AllBenches() {
  std::vector<Bench> benches = OpBenches();
  benches.push_back({"sample_rays", "rays", PrepareSampleRays});
  benches.push_back({"occupancy_update", "cells", PrepareOccupancyUpdate});
  benches.push_back({"empty_distances", "blocks", PrepareEmptyDistances});
  benches.push_back({"training_step", "trained samples", PrepareTrainingStep});
  return benches;
}

}  // namespace nerf
