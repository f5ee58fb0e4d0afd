#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/scene.h"
#include "engine/train/group/group.h"
#include "engine/train/training_step.h"

namespace nerf {

// The training methods: on which devices each trains, and how much memory it needs.

// Methods that are installed and train on `device`. Requires: CheckDevice(device) is OK.
std::vector<std::string> TrainingMethods(std::string_view device);

// Those of them whose parts' models are merged there (MethodDescription::Parts).
std::vector<std::string> MergingMethods(std::string_view device);

// MethodDescription::CheckRanks of the config's method for devices of the kind of `device`, with
// reason FEATURE_NOT_BUILT.
absl::Status CheckRanksShare(const TrainConfig& config, std::string_view device, int n_ranks);

// The step of config.method on `device`. Errors: as CheckDevice, CheckDeviceHonors (FIELD_INVALID),
// with a group CheckRanksShare, and Method::NewStep. scene, pool and group outlive the step. The
// step is used from the calling thread.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewTrainingStep(
    const TrainConfig& config, const SceneGeometry& geometry, const Scene& scene,
    std::string_view device, ThreadPool* pool, Group* group = nullptr);

// Host memory in bytes that the CPU step of config.method allocates.
uint64_t TrainingStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_threads);

}  // namespace nerf
