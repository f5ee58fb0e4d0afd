#include "engine/methods/autograd/cuda_layer.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <memory>

#include "engine/field/kernels/cuda/device.h"

namespace nerf::autograd {
namespace {

namespace pool = c10::cuda::CUDACachingAllocator;

// LibTorch's default stream is a null handle. A kernels::Stream is never null, so CUDA's other
// handle for the same stream is used.
kernels::Stream StreamOf(cudaStream_t handle) {
  return {handle != nullptr ? handle : cudaStreamLegacy};
}

void* AllocateInStream(size_t byte_size, cudaStream_t stream) {
  try {
    return pool::raw_alloc_with_stream(byte_size, stream);
  } catch (const c10::OutOfMemoryError&) {
    throw kernels::cuda::CudaOutOfMemory();
  }
}

class PoolAllocator : public BufferAllocator {
 public:
  void* Allocate(size_t byte_size) override {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    std::unique_ptr<void, void (*)(void*)> bytes(AllocateInStream(byte_size, stream),
                                                 pool::raw_delete);
    kernels::cuda::Fill(bytes.get(), 0, byte_size, StreamOf(stream));
    return bytes.release();
  }
  void Free(void* bytes, size_t /*byte_size*/) override { pool::raw_delete(bytes); }
  DeviceKind device() const override { return DeviceKind::kCuda; }
};

}  // namespace

bool HasCudaLayer() { return true; }

kernels::Stream CurrentStream(const torch::Device& device) {
  return StreamOf(c10::cuda::getCurrentCUDAStream(device.index()));
}

BufferAllocator* CachingAllocator() {
  static PoolAllocator* const allocator = new PoolAllocator;
  return allocator;
}

}  // namespace nerf::autograd
