#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/train/method.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// The training methods of this engine, in the order of describe/method_list.inc.
std::vector<const Method*> Methods();
// Null where there is no such method.
const Method* FindMethod(std::string_view name);
// The method of a config. Requires: ValidateConfig is OK.
const Method& MethodOf(const TrainConfig& config);
// Adds a method that only a test has, with its description, for the rest of the process. Not
// thread-safe.
void AddMethod(const Method* method);

// CUDA device `index` for the models of every method that renders there, each by its own renderer;
// those of the others it renders on the CPU. Requires: the device exists. Load throws
// kernels::cuda::CudaError and kernels::cuda::CudaOutOfMemory.
std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index);

}  // namespace nerf
