#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/training_step.h"

namespace nerf {

inline constexpr char kAutogradMethod[] = "ngp-autograd";

// Path of libnerf_autograd.so: ../lib relative to the folder of this program.
std::string AutogradLibraryPath();

// Whether that file exists.
bool HasAutogradLibrary();

// The step of method ngp-autograd, from the library, which is opened at the first call and stays
// open. Errors: Unimplemented FEATURE_NOT_BUILT if the library is missing or cannot be opened.
// pool outlives the step.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewAutogradStep(const TrainConfig& config,
                                                              const SceneGeometry& geometry,
                                                              ThreadPool* pool);

}  // namespace nerf
