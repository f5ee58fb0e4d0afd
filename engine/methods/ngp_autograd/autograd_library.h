#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/method.h"

namespace nerf {

// Path of libnerf_autograd.so (engine/methods/autograd), which has the steps of the methods through
// LibTorch: ../lib relative to the folder of this program.
std::string AutogradLibraryPath();

// Method::CheckInstalled and NewStep of `method`, one of these. instead: the method that errors
// suggest.
absl::Status CheckAutogradInstalled(std::string_view method, std::string_view instead);
// Unimplemented FEATURE_NOT_BUILT unless this was built with a LibTorch that has CUDA.
absl::Status CheckAutogradHasCuda(std::string_view method);
absl::StatusOr<std::unique_ptr<TrainingStep>> NewAutogradLibraryStep(const StepRequest& request,
                                                                     std::string_view instead);

}  // namespace nerf
