#pragma once

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include "engine/base/buffer.h"
#include "engine/kernels/stream.h"

// What ops need to launch our kernels on LibTorch's tensors on a CUDA device. The kernels then work
// in LibTorch's order and from its pool of memory.
namespace nerf::autograd {

// Whether this build has kernels and a LibTorch with CUDA. The two functions below abort by
// NERF_CHECK where it has not.
bool HasCudaLayer();

// The stream that LibTorch puts the calling thread's work on `device` in. Lives for ever.
kernels::Stream CurrentStream(const torch::Device& device);

// Memory from LibTorch's pool, of the device in use: zeroed, and free again, for what goes through
// the stream that is current where it is allocated. So it is for arrays that serve one op and do
// not leave it. Never null, lives for ever, thread-safe. Throws kernels::cuda::CudaOutOfMemory.
BufferAllocator* CachingAllocator();

// A tensor that is the buffer's memory, which outlives it.
template <typename T>
torch::Tensor ViewOf(Buffer<T>* buffer, torch::IntArrayRef shape, const torch::Device& device) {
  const torch::Tensor view =
      at::for_blob(buffer->data(), shape)
          .target_device(device)
          .options(torch::TensorOptions(device).dtype(c10::CppTypeToScalarType<T>::value))
          .make_tensor();
  TORCH_CHECK(static_cast<size_t>(view.numel()) == buffer->size(), "ViewOf: ", buffer->size(),
              " elements seen as ", shape);
  return view;
}

}  // namespace nerf::autograd
