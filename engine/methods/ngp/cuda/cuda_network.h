#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/buffer.h"
#include "engine/base/half_float.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/stream.h"
#include "engine/methods/ngp/cuda/cuda_buffers.h"
#include "engine/methods/ngp/cuda/cuda_state.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/parameters.h"

namespace nerf {

// What NgpCudaNetwork keeps of up to `capacity` samples.
template <typename T>
struct NgpNetworkSamples {
  NgpNetworkSamples(size_t capacity, BufferAllocator* from)
      : encodings(kEncodingWidth * capacity, from),
        geometry(kGeometryWidth * capacity, from),
        grad_encodings(kEncodingWidth * capacity, from),
        rows(capacity, from) {}
  Buffer<T> encodings, geometry;
  Buffer<float> grad_encodings;
  Buffer<uint32_t> rows;  // 0, 1, ...
};

// One network of the ngp field in training on a CUDA device, for samplers other than the march of
// NgpCudaStep. T is Half or float. Uses the current device. All but Upload, Download and Reserve
// happens in the order of the stream, and positions lie in the unit cube of the encoding.
template <typename T>
class NgpCudaNetwork {
 public:
  // host: the parameters, in fp32, equal to the device's after Upload and Download; outlives this.
  NgpCudaNetwork(const TrainConfig& config, float density_shift, NgpParameters* host);

  // Other parameters of the same shape, for the next Upload.
  void SetHost(NgpParameters* host) { host_ = host; }
  // Makes room. Arrays move. Throws kernels::cuda::CudaOutOfMemory.
  void Reserve(uint32_t n_samples);
  void Upload(kernels::Stream stream);
  void Download(kernels::Stream stream) const { nerf::Download(state_, host_, stream); }
  // Levels of the encoding that take part from now on, the coarsest ones.
  void SetLevels(int n, kernels::Stream stream);

  // Samples of a range whose capacity has room.
  void Density(const kernels::DeviceRange& range, const Vec3* positions, float* sigmas,
               kernels::Stream stream);
  // sRGB colors of the samples of Density. harmonics [n_rays][16].
  void Color(const kernels::DeviceRange& range, const uint32_t* ray_of, const T* harmonics,
             Vec3* colors, kernels::Stream stream);
  // The gradients by the parameters from grads [n][4] of the samples of Density
  // (kernels/composite.h).
  void Backward(const kernels::DeviceRange& range, const Vec3* positions, const uint32_t* ray_of,
                const T* harmonics, const float* grads, kernels::Stream stream);
  // Adam. settings: of the table, then of the MLPs. *skip != 0: nothing. *not_finite becomes 1 if a
  // weight is not finite. What is frozen stays as it is.
  void Update(const kernels::cuda::AdamStepSettings* settings, const uint32_t* skip,
              uint32_t* not_finite, kernels::Stream stream);
  void UpdateAverages(float decay, kernels::Stream stream);

  static size_t Bytes(const TrainConfig& config, const kernels::HashGridShape& shape,
                      size_t n_samples);

 private:
  void UpdateWeights(const kernels::cuda::AdamStepSettings* settings, const uint32_t* skip,
                     uint32_t* not_finite, kernels::Stream stream);
  const T* Trained(const Buffer<float>& masters, const Buffer<Half>& copies) const;

  const float density_shift_;
  const Frozen frozen_;
  NgpParameters* host_;
  const int n_backward_blocks_;
  kernels::HashGridShape shape_;  // of the levels that take part
  CudaState state_;
  CudaTraining<T> training_;
  NgpNetworkSamples<T> samples_;
  uint32_t capacity_ = 0;
};

}  // namespace nerf
