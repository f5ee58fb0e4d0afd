#pragma once

#include <memory>

#include "engine/render/render_device.h"

namespace nerf {

// Renders models of the ngp field on CUDA device `index`, which the calling thread uses from now
// on. Loading and rendering throw kernels::cuda::CudaOutOfMemory and kernels::cuda::CudaError.
// Views that do not fit into the device's memory are rendered in parts.
std::unique_ptr<RenderDevice> NewNgpCudaRenderDevice(int index);

}  // namespace nerf
