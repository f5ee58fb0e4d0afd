#pragma once

#include <torch/torch.h>

#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/vec3.h"
#include "engine/train/ray_step.h"

namespace nerf {

// What the steps through LibTorch share.

// [n, 3] and [n], over the vector's memory.
torch::Tensor AsTensor(const std::vector<Vec3>& points);
torch::Tensor AsTensor(const std::vector<float>& values);

// CUDA device `index`; nullopt: the CPU.
torch::Device DeviceOf(std::optional<int> index);

// Parameters that gradients are taken of: on the CPU over their memory, elsewhere a copy.
torch::Tensor AsLeaf(const float* values, torch::IntArrayRef shape,
                     const torch::Device& device = torch::kCPU);

// [n_rays, 3] each, times their rays' weights.
struct RayLosses {
  torch::Tensor losses;   // Huber 1964, or half the square
  torch::Tensor squares;  // of color - target; without gradients
};

// Of colors [n_rays, 3] of the batch's rays.
RayLosses LossesOf(const TrainConfig& config, const RayBatch& batch, const torch::Tensor& colors);

// Runs the function and throws std::bad_alloc for lack of memory. LibTorch has no exception type
// for this on the CPU.
template <typename Function>
auto WithBadAlloc(Function function) {
  try {
    return std::move(function)();
  } catch (const c10::Error& e) {
    if (std::string_view(e.what()).find("can't allocate memory") != std::string_view::npos)
      throw std::bad_alloc();
    throw;
  }
}

}  // namespace nerf
