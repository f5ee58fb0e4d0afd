#pragma once

// Replaces the CUDA runtime's header on machines without the CUDA toolkit, so that LibTorch's CUDA
// headers and engine/methods/autograd/cuda_layer.cc compile. Nothing links against it. Constants
// have CUDA's values if LibTorch or we depend on them.

using cudaStream_t = struct CUstream_st*;
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))

enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600 };
enum cudaMemcpyKind : int;

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaMemcpyAsync(void* to, const void* from, decltype(sizeof(0)) byte_size,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
