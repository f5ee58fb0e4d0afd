#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/field/kernels/cuda/cuda_check.cuh"
#include "engine/field/kernels/stream.h"

// All kernels are launched here. A kernel has one parameter, a struct. `name` is the kernel's name
// in error messages.
namespace nerf::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kBlock = 256;  // default number of threads per block

// The number of blocks of n_threads with shared_bytes of dynamic shared memory that the current
// device runs at once. Kernels whose number of elements is only known on the device are launched
// with that many blocks, which loop over the elements.
template <typename Params>
int ResidentBlocks(void (*kernel)(Params), int n_threads, size_t shared_bytes) {
  int device = 0, n_multiprocessors = 0, per_multiprocessor = 0;
  NERF_CUDA_CHECK(cudaGetDevice(&device));
  NERF_CUDA_CHECK(
      cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, device));
  // More than 48 KB must be requested.
  NERF_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared_bytes)));
  NERF_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel,
                                                                n_threads, shared_bytes));
  return std::max(1, n_multiprocessors * per_multiprocessor);
}

template <typename Params>
void Launch(const char* name, void (*kernel)(Params), int n_blocks, int n_threads,
            size_t shared_bytes, Stream stream, Params params) {
  void* arguments[] = {&params};
  CheckCuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(n_blocks), dim3(n_threads),
                             arguments, shared_bytes, static_cast<cudaStream_t>(stream.handle)),
            name, __FILE__, __LINE__);
}

// For kernels that loop over up to `n` elements, one per thread and iteration: launches at most the
// resident blocks, and none if n is 0.
template <typename Params>
void LaunchOver(const char* name, void (*kernel)(Params), uint64_t n, int n_threads, Stream stream,
                Params params) {
  const uint64_t n_blocks = (n + n_threads - 1) / n_threads;
  if (n_blocks == 0) return;
  const uint64_t n_resident = ResidentBlocks(kernel, n_threads, 0);
  Launch(name, kernel, static_cast<int>(std::min(n_blocks, n_resident)), n_threads, 0, stream,
         params);
}

}  // namespace nerf::kernels::cuda
