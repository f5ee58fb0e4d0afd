#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include <torch/cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/methods/autograd/autograd_step.h"
#include "engine/methods/autograd/mlp_autograd_step.h"
#include "engine/train/method.h"

// engine/program/session opens this library and looks this function up by name. Does not throw.
extern "C" __attribute__((visibility("default"))) void NerfNewAutogradStep(
    const nerf::StepRequest* request, absl::StatusOr<std::unique_ptr<nerf::TrainingStep>>* step) {
  try {
    const std::optional<int> device = request->cuda_device;
    if (device.has_value() && *device >= static_cast<int>(torch::cuda::device_count())) {
      *step = absl::FailedPreconditionError("device cuda:" + std::to_string(*device) +
                                            ": LibTorch finds no such device");
    } else if (request->config.method == "ngp-autograd") {
      *step = nerf::NewAutogradStep(request->config, request->geometry, request->pool,
                                    request->scene.train, request->group, device);
    } else {
      *step = nerf::NewMlpAutogradStep(request->config, request->geometry, request->pool,
                                       request->scene.train, device);
    }
  } catch (const std::bad_alloc&) {
    *step = absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& e) {
    *step = absl::InternalError(e.what());
  }
}
