#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/methods/ngp/cuda_warp.h"
#include "engine/train/method.h"

namespace nerf {

// The step of method ngp on the request's CUDA device, as Method::NewStep says. The training
// pictures go into the device's memory, or into page-locked memory of the host, whichever has room
// first: then the device draws its rays. Otherwise the host draws and copies them.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewNgpStepOnDevice(const StepRequest& request,
                                                                 const NgpCudaWarpMaker& warp = {});

}  // namespace nerf
