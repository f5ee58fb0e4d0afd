#include "engine/methods/ngp/cuda/cuda_view_network.h"

#include <algorithm>
#include <type_traits>

#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/ngp_mlp.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

float WideValue(float value) { return value; }
float WideValue(Half value) { return FloatFromHalf(value); }

template <typename T, typename From>
Buffer<T> Uploaded(const From* values, size_t n, kernels::Stream stream) {
  std::vector<T> converted(values != nullptr ? n : 0);
  std::transform(values, values + converted.size(), converted.begin(), [](From value) -> T {
    if constexpr (std::is_same_v<T, Half>)
      return HalfFromFloat(WideValue(value));
    else
      return WideValue(value);
  });
  Buffer<T> buffer(converted.size(), cuda::DeviceAllocator());
  if (!buffer.empty()) {
    cuda::CopyToDevice(buffer.data(), converted.data(), buffer.byte_size(), stream);
    cuda::Synchronize(stream);
  }
  return buffer;
}

NgpNetwork WithoutParameters(NgpNetwork network) {
  network.table = network.weights = network.appearance = nullptr;
  network.half_table = nullptr;
  network.weight_pairs = nullptr;
  return network;
}

}  // namespace

template <typename T>
NgpViewNetwork<T>::NgpViewNetwork(const NgpNetwork& network, kernels::Stream stream)
    : network_(WithoutParameters(network)),
      table_(Uploaded<T>(network.half_table, network.shape.level_size() * network.shape.n_levels,
                         stream)),
      weights_(Uploaded<T>(network.weights, kNgpWeights, stream)),
      appearance_(Uploaded<float>(network.appearance, kHiddenWidth, stream)) {}

template <typename T>
void NgpViewNetwork<T>::Evaluate(const Samples& samples, kernels::Stream stream) const {
  const uint32_t capacity = samples.range.capacity;
  cuda::HashEncodeForward(cuda::HashEncodeForwardParams<T>{.shape = network_.shape,
                                                           .table = table_.data(),
                                                           .range = samples.range,
                                                           .positions = samples.positions,
                                                           .features = samples.encodings,
                                                           .stride = capacity},
                          stream);
  cuda::NgpDensity(cuda::NgpDensityParams<T>{.range = samples.range,
                                             .weights = weights_.data(),
                                             .encodings = samples.encodings,
                                             .stride = capacity,
                                             .shift = network_.density_shift,
                                             .sigmas = samples.sigmas,
                                             .geometry = samples.geometry},
                   stream);
  cuda::NgpColor(cuda::NgpColorParams<T>{.range = samples.range,
                                         .weights = weights_.data(),
                                         .ray_of = samples.ray_of,
                                         .harmonics = samples.harmonics,
                                         .geometry = samples.geometry,
                                         .colors = samples.colors,
                                         .terms = {appearance_.data()}},
                 stream);
}

template class NgpViewNetwork<float>;
template class NgpViewNetwork<Half>;

}  // namespace nerf
