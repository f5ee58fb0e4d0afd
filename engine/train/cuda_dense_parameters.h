#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/half_float.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/parameters/dense_parameters.h"

namespace nerf {

// The arrays on a device of parameters that every step updates as a whole, all from one allocator.
// T is Half, of which there are copies of the values, or float. n_parts: of the gradients.
template <typename T>
struct CudaDenseArrays {
  CudaDenseArrays(size_t n, int n_parts, BufferAllocator* from)
      : values(n, from),
        first(n, from),
        second(n, from),
        averages(n, from),
        copies(std::is_same_v<T, Half> ? n : 0, from),
        gradients(n * n_parts, from) {}
  Buffer<float> values, first, second, averages;
  Buffer<Half> copies;
  Buffer<float> gradients;  // one row a part
};

// The copy on the current device of the host's parameters. Copies return when they are done.
template <typename T>
class CudaDenseParameters {
 public:
  CudaDenseParameters(size_t n, int n_parts)
      : n_parts_(n_parts), arrays_(n, n_parts, kernels::cuda::DeviceAllocator()) {}

  // What the field is evaluated with: the values, or their copies in half precision.
  const T* values() const {
    if constexpr (std::is_same_v<T, Half>)
      return arrays_.copies.data();
    else
      return arrays_.values.data();
  }
  size_t size() const { return arrays_.values.size(); }
  float* gradients() { return arrays_.gradients.data(); }

  // Arguments as kernels::cuda::AdamDenseParams has them.
  void Update(const kernels::cuda::AdamStepSettings* settings, const uint32_t* skip,
              uint32_t* not_finite, kernels::Stream stream) {
    kernels::cuda::AdamDense({.settings = settings,
                              .skip = skip,
                              .n = static_cast<int64_t>(size()),
                              .n_parts = n_parts_,
                              .gradients = arrays_.gradients.data(),
                              .parameters = arrays_.values.data(),
                              .first_moments = arrays_.first.data(),
                              .second_moments = arrays_.second.data(),
                              .half_copies = arrays_.copies.data(),
                              .not_finite = not_finite},
                             stream);
  }
  void UpdateAverages(float decay, kernels::Stream stream) {
    kernels::cuda::MovingAverage({.decay = decay,
                                  .n = static_cast<int64_t>(size()),
                                  .parameters = arrays_.values.data(),
                                  .averages = arrays_.averages.data()},
                                 stream);
  }

  void Upload(const DenseParameters::Arrays& host, kernels::Stream stream) {
    ForEach(host, [&](std::span<float> on_host, Buffer<float>& on_device) {
      kernels::cuda::CopyToDevice(on_device.data(), on_host.data(), on_device.byte_size(), stream);
    });
    std::vector<Half> rounded(arrays_.copies.size());
    std::transform(host.values.begin(), host.values.begin() + rounded.size(), rounded.begin(),
                   HalfFromFloat);
    kernels::cuda::CopyToDevice(arrays_.copies.data(), rounded.data(), arrays_.copies.byte_size(),
                                stream);
    kernels::cuda::Synchronize(stream);
  }
  void Download(const DenseParameters::Arrays& host, kernels::Stream stream) {
    ForEach(host, [&](std::span<float> on_host, Buffer<float>& on_device) {
      kernels::cuda::CopyToHost(on_host.data(), on_device.data(), on_device.byte_size(), stream);
    });
    kernels::cuda::Synchronize(stream);
  }

 private:
  template <typename Body>
  void ForEach(const DenseParameters::Arrays& host, Body body) {
    body(host.values, arrays_.values);
    body(host.first, arrays_.first);
    body(host.second, arrays_.second);
    body(host.averages, arrays_.averages);
  }

  const int n_parts_;
  CudaDenseArrays<T> arrays_;
};

}  // namespace nerf
