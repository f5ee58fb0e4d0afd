// Replaces cuda_layer.cc if the build has no CUDA kernels or LibTorch has no CUDA.
#include "engine/base/check.h"
#include "engine/methods/autograd/cuda_layer.h"

#define NERF_NO_CUDA_LAYER() ::nerf::CheckFailed("HasCudaLayer()", __FILE__, __LINE__)

namespace nerf::autograd {

bool HasCudaLayer() { return false; }
kernels::Stream CurrentStream(const torch::Device&) { NERF_NO_CUDA_LAYER(); }
BufferAllocator* CachingAllocator() { NERF_NO_CUDA_LAYER(); }

}  // namespace nerf::autograd
