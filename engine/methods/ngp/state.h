#pragma once

#include "absl/status/status.h"
#include "engine/base/config/train_config.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/scene/scene.h"
#include "engine/train/occupancy_updater.h"
#include "engine/train/training_step.h"

namespace nerf {

inline constexpr uint32_t kNgpAverageInterval = 16;  // steps between updates of the moving average

// The state of a training of the ngp field between steps: parameters with moments and averages,
// occupancy grid, number of updates. The steps of `ngp` and `ngp-autograd` share it, so they read
// and write each other's files.
struct NgpState {
  NgpState(const TrainConfig& config, const SceneGeometry& geometry);

  // The outermost box of the grid.
  Aabb OuterBox() const;
  NgpNetwork Network() const;
  // The config's step lengths, or the scene's where the config does not set them.
  kernels::MarchSteps steps() const;

  // For kernels::DensityFromOutput: follows from the config's initial_density and the box.
  float density_shift() const;

  // As TrainingStep describes them.
  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);
  void SaveModel(TensorFile* file) const;
  absl::Status Initialize(const TensorFile& file);
  std::unique_ptr<TrainedModel> Snapshot() const;

  const TrainConfig config;
  const SceneGeometry geometry;
  NgpParameters parameters;
  OccupancyUpdater occupancy;
  uint32_t n_updates = 0;  // of Adam, since the moments started
};

// Levels of the hash encoding that take part, the coarsest ones: a quarter of them at first, rising
// on a line to all at coarse_share of the budget. What is coarse settles before detail can make up
// for it, and costs less. fraction in [0, 1].
int ActiveLevels(const TrainConfig& config, double fraction);

// The network of a config's field on a scene, without parameters; and with them, borrowed.
NgpNetwork NgpNetworkOf(const TrainConfig& config, const SceneGeometry& geometry);
NgpNetwork WithParameters(NgpNetwork network, const NgpParameters& parameters);
// A trained field as a model.
std::unique_ptr<TrainedModel> NewNgpModel(const TrainConfig& config, const SceneGeometry& geometry,
                                          NgpEvaluationParameters parameters, OccupancyGrid grid);

// The network's densities for OccupancyUpdater::Update. Copies the view, borrows the parameters.
OccupancyUpdater::Density ProbedDensity(const NgpNetwork& network);

}  // namespace nerf
