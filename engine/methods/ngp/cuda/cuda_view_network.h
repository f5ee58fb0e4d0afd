#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/field/kernels/stream.h"
#include "engine/methods/ngp/network.h"

namespace nerf {

// The network of a model on the current device, for views. T is Half or float.
template <typename T>
class NgpViewNetwork {
 public:
  // Copies the parameters; without any there is nothing to evaluate.
  NgpViewNetwork(const NgpNetwork& network, kernels::Stream stream);

  // Densities and colors at encoded positions. All arrays are on the device: ray_of indices into
  // harmonics [n_rays][16]; encodings and geometry are scratch of range.capacity samples.
  struct Samples {
    kernels::DeviceRange range;
    const Vec3* positions = nullptr;
    const uint32_t* ray_of = nullptr;
    const T* harmonics = nullptr;
    T* encodings = nullptr;
    T* geometry = nullptr;
    float* sigmas = nullptr;
    Vec3* colors = nullptr;
  };
  void Evaluate(const Samples& samples, kernels::Stream stream) const;

  // Without its parameters.
  const NgpNetwork& network() const { return network_; }

 private:
  const NgpNetwork network_;
  Buffer<T> table_, weights_;
  Buffer<float> appearance_;  // NgpNetwork::appearance, or empty
};

}  // namespace nerf
