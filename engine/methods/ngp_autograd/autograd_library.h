#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/method.h"

namespace nerf {

// Path of libnerf_autograd.so (engine/autograd), which has the steps of methods ngp-autograd and
// mlp-autograd: ../lib
// relative to the folder of this program.
std::string AutogradLibraryPath();

// Method::CheckInstalled and NewStep of `method`, one of these.
absl::Status CheckAutogradInstalled(std::string_view method);
absl::StatusOr<std::unique_ptr<TrainingStep>> NewAutogradLibraryStep(const StepRequest& request);

}  // namespace nerf
