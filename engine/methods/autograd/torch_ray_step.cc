#include "engine/methods/autograd/torch_ray_step.h"

#include "engine/methods/autograd/ray_tensors.h"

namespace nerf {

StepResult TorchRayStep::RunRays(const RayBatch& batch) {
  return WithBadAlloc([&] {
    profile_.BeginStep();
    const StepResult result = RunBatch(batch);
    profile_.EndStep();
    return result;
  });
}

}  // namespace nerf
