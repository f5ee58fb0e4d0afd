#pragma once

#include <cuda_runtime.h>

#include <string>

#include "engine/field/kernels/cuda/device.h"

namespace nerf::kernels::cuda {

inline void CheckCuda(cudaError_t result, const char* expression, const char* file, int line) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call does not report it again
  if (result == cudaErrorMemoryAllocation) throw CudaOutOfMemory();
  throw CudaError(std::string(file) + ":" + std::to_string(line) + ": " + expression + ": " +
                  cudaGetErrorString(result));
}

}  // namespace nerf::kernels::cuda

// Wraps every call of the CUDA runtime. Throws CudaError or CudaOutOfMemory.
#define NERF_CUDA_CHECK(call) ::nerf::kernels::cuda::CheckCuda((call), #call, __FILE__, __LINE__)
