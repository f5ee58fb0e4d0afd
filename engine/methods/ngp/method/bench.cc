#include "engine/methods/ngp/method/bench.h"

#include <memory>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/state.h"
#include "engine/train/step_bench.h"

namespace nerf {
namespace {

// Past the first hundreds of steps the occupancy grid has found the ball.
constexpr int kStepsBefore = 200;

// An update that probes like those of most steps, on a grid whose blocks all hold something.
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

std::vector<Bench> NgpBenches(const Method& ngp, const Scene& scene) {
  TrainConfig config = ngp.description().Defaults();
  config.distortion = 0;
  TrainConfig with_proposals = config;
  Ngp(with_proposals).sampler = Sampler::kProposals;
  return {{"occupancy_update", "cells",
           [&scene](ThreadPool* pool) { return PrepareOccupancyUpdate(scene, pool); }},
          {"empty_distances", "blocks",
           [&scene](ThreadPool* /*pool*/) { return PrepareEmptyDistances(scene); }},
          StepBench("training_step", ngp, config, scene, kStepsBefore),
          StepBench("proposals_step", ngp, with_proposals, scene, kStepsBefore)};
}

}  // namespace nerf
