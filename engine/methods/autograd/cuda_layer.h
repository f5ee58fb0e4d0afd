#pragma once

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include "engine/base/buffer.h"
#include "engine/field/kernels/stream.h"

// Lets ops launch our kernels on LibTorch's tensors on a CUDA device, in LibTorch's streams and
// with memory from its pool.
namespace nerf::autograd {

// Whether this build has CUDA kernels and a LibTorch with CUDA. If not, the two functions below
// abort by NERF_CHECK.
bool HasCudaLayer();

// The stream in which LibTorch runs the calling thread's work on `device`. Never destroyed.
kernels::Stream CurrentStream(const torch::Device& device);

// Zeroed memory of the current device from LibTorch's pool. It must only be used in the stream that
// is current when it is allocated, since it is reused in that stream's order: use it for arrays
// that do not outlive an op. Never null, never destroyed, thread-safe. Throws
// kernels::cuda::CudaOutOfMemory.
BufferAllocator* CachingAllocator();

// A tensor that shares the buffer's memory. The buffer must outlive it.
template <typename T>
torch::Tensor ViewOf(Buffer<T>* buffer, torch::IntArrayRef shape, const torch::Device& device) {
  const torch::Tensor view =
      at::for_blob(buffer->data(), shape)
          .target_device(device)
          .options(torch::TensorOptions(device).dtype(c10::CppTypeToScalarType<T>::value))
          .make_tensor();
  TORCH_CHECK(static_cast<size_t>(view.numel()) == buffer->size(), "ViewOf: ", buffer->size(),
              " elements viewed as ", shape);
  return view;
}

}  // namespace nerf::autograd
