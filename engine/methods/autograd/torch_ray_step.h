#pragma once

#include <string>

#include "engine/methods/autograd/op_profile.h"
#include "engine/train/ray_step.h"

namespace nerf {

// A step on rays that runs through LibTorch: lack of memory is std::bad_alloc, and LibTorch's
// profiler records the first steps on request.
class TorchRayStep : public RayStep {
 public:
  using RayStep::RayStep;

  StepResult RunRays(const RayBatch& batch) override;
  void StartProfile(int n_steps) override { profile_.Start(n_steps); }
  std::string Profile() const override { return profile_.ToJson(); }

 protected:
  virtual StepResult RunBatch(const RayBatch& batch) = 0;

 private:
  autograd::OpProfile profile_;
};

}  // namespace nerf
