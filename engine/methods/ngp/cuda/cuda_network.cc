#include "engine/methods/ngp/cuda/cuda_network.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/ngp_mlp.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

template <typename T>
NgpCudaNetwork<T>::NgpCudaNetwork(const TrainConfig& config, float density_shift,
                                  NgpParameters* host)
    : density_shift_(density_shift),
      frozen_(Ngp(config).frozen),
      host_(host),
      n_backward_blocks_(cuda::NgpBackwardBlocks<T>()),
      shape_(host->shape()),
      state_(host->arrays().table.size(), 0, cuda::DeviceAllocator()),
      training_(config, state_.table.size(), n_backward_blocks_, 0, cuda::DeviceAllocator()),
      samples_(0, cuda::DeviceAllocator()) {}

template <typename T>
void NgpCudaNetwork<T>::Reserve(uint32_t n_samples) {
  if (n_samples <= capacity_) return;
  capacity_ = 0;
  samples_ = NgpNetworkSamples<T>(0, cuda::DeviceAllocator());
  samples_ = NgpNetworkSamples<T>(std::bit_ceil(n_samples), cuda::DeviceAllocator());
  capacity_ = std::bit_ceil(n_samples);
  std::vector<uint32_t> rows(capacity_);
  std::iota(rows.begin(), rows.end(), 0u);
  const cuda::OwnedStream stream;
  cuda::CopyToDevice(samples_.rows.data(), rows.data(), samples_.rows.byte_size(), stream.get());
  cuda::Synchronize(stream.get());
}

template <typename T>
void NgpCudaNetwork<T>::SetLevels(int n, kernels::Stream stream) {
  if (n < shape_.n_levels) {
    // The features of the other levels, which nothing writes: zeros, as in new arrays.
    cuda::Fill(samples_.encodings.data(), 0, samples_.encodings.byte_size(), stream);
  }
  shape_.n_levels = n;
}

template <typename T>
void NgpCudaNetwork<T>::Upload(kernels::Stream stream) {
  nerf::Upload(host_, &state_, stream);
  if constexpr (CudaTraining<T>::kHalf) {
    const auto copy = [&](std::span<const float> from, Buffer<Half>& to) {
      if (to.empty()) return;
      std::vector<Half> rounded(from.size());
      std::transform(from.begin(), from.end(), rounded.begin(), HalfFromFloat);
      cuda::CopyToDevice(to.data(), rounded.data(), to.byte_size(), stream);
      cuda::Synchronize(stream);
    };
    copy(host_->arrays().table, training_.table_copies);
    copy(host_->arrays().weights, training_.weight_copies);
  }
}

template <typename T>
const T* NgpCudaNetwork<T>::Trained(const Buffer<float>& masters,
                                    const Buffer<Half>& copies) const {
  if constexpr (CudaTraining<T>::kHalf) {
    return copies.data();
  } else {
    return masters.data();
  }
}

template <typename T>
void NgpCudaNetwork<T>::Density(const kernels::DeviceRange& range, const Vec3* positions,
                                float* sigmas, kernels::Stream stream) {
  NERF_CHECK(range.capacity <= capacity_);
  if (range.capacity == 0) return;
  cuda::HashEncodeForward(
      cuda::HashEncodeForwardParams<T>{.shape = shape_,
                                       .table = Trained(state_.table, training_.table_copies),
                                       .fp32_table = training_.Fp32Table(state_.table),
                                       .range = range,
                                       .positions = positions,
                                       .features = samples_.encodings.data(),
                                       .stride = capacity_},
      stream);
  cuda::NgpDensityParams<T> density;
  density.range = range;
  density.weights = Trained(state_.weights, training_.weight_copies);
  density.encodings = samples_.encodings.data();
  density.stride = capacity_;
  density.shift = density_shift_;
  density.sigmas = sigmas;
  density.geometry = samples_.geometry.data();
  cuda::NgpDensity(density, stream);
}

template <typename T>
void NgpCudaNetwork<T>::Color(const kernels::DeviceRange& range, const uint32_t* ray_of,
                              const T* harmonics, Vec3* colors, kernels::Stream stream) {
  if (range.capacity == 0) return;
  cuda::NgpColor(
      cuda::NgpColorParams<T>{.range = range,
                              .weights = Trained(state_.weights, training_.weight_copies),
                              .ray_of = ray_of,
                              .harmonics = harmonics,
                              .geometry = samples_.geometry.data(),
                              .colors = colors},
      stream);
}

template <typename T>
void NgpCudaNetwork<T>::Backward(const kernels::DeviceRange& range, const Vec3* positions,
                                 const uint32_t* ray_of, const T* harmonics, const float* grads,
                                 kernels::Stream stream) {
  if (range.capacity == 0) {
    cuda::Fill(training_.weight_gradients.data(), 0, training_.weight_gradients.byte_size(),
               stream);
    return;
  }
  cuda::NgpBackward(
      cuda::NgpBackwardParams<T>{.range = range,
                                 .n_blocks = n_backward_blocks_,
                                 .weights = Trained(state_.weights, training_.weight_copies),
                                 .rows = samples_.rows.data(),
                                 .ray_of = ray_of,
                                 .harmonics = harmonics,
                                 .encodings = samples_.encodings.data(),
                                 .stride = capacity_,
                                 .grads = grads,
                                 .grad_encodings = samples_.grad_encodings.data(),
                                 .grad_stride = capacity_,
                                 .weight_gradients = training_.weight_gradients.data()},
      stream);
  if (frozen_ == Frozen::kTable) return;
  cuda::HashEncodeBackward({.shape = shape_,
                            .range = range,
                            .positions = positions,
                            .grad_features = samples_.grad_encodings.data(),
                            .stride = capacity_,
                            .grad_table = training_.table_gradients.data(),
                            .fixed_grad_table = training_.fixed_table_gradients.data()},
                           stream);
}

template <typename T>
void NgpCudaNetwork<T>::UpdateWeights(const cuda::AdamStepSettings* settings, const uint32_t* skip,
                                      uint32_t* not_finite, kernels::Stream stream) {
  cuda::AdamDense({.settings = settings,
                   .skip = skip,
                   .n = kNgpWeights,
                   .n_parts = n_backward_blocks_,
                   .gradients = training_.weight_gradients.data(),
                   .parameters = state_.weights.data(),
                   .first_moments = state_.weights_first.data(),
                   .second_moments = state_.weights_second.data(),
                   .half_copies = training_.weight_copies.data(),
                   .not_finite = not_finite},
                  stream);
}

template <typename T>
void NgpCudaNetwork<T>::Update(const cuda::AdamStepSettings* settings, const uint32_t* skip,
                               uint32_t* not_finite, kernels::Stream stream) {
  if (frozen_ != Frozen::kMlp) UpdateWeights(settings + 1, skip, not_finite, stream);
  if (frozen_ == Frozen::kTable) return;
  cuda::AdamSparse({.settings = settings,
                    .skip = skip,
                    .n = static_cast<int64_t>(state_.table.size()),
                    .gradients = training_.table_gradients.data(),
                    .fixed_gradients = training_.fixed_table_gradients.data(),
                    .parameters = state_.table.data(),
                    .first_moments = state_.table_first.data(),
                    .second_moments = state_.table_second.data(),
                    .half_copies = training_.table_copies.data()},
                   stream);
}

template <typename T>
void NgpCudaNetwork<T>::UpdateAverages(float decay, kernels::Stream stream) {
  const auto average = [&](const Buffer<float>& parameters, Buffer<float>& averages) {
    cuda::MovingAverage({.decay = decay,
                         .n = static_cast<int64_t>(parameters.size()),
                         .parameters = parameters.data(),
                         .averages = averages.data()},
                        stream);
  };
  average(state_.table, state_.table_average);
  average(state_.weights, state_.weights_average);
}

template <typename T>
size_t NgpCudaNetwork<T>::Bytes(const TrainConfig& config, const kernels::HashGridShape& shape,
                                size_t n_samples) {
  MeasuringAllocator measure;
  const size_t table_size = shape.level_size() * shape.n_levels;
  CudaState(table_size, 0, &measure);
  CudaTraining<T>(config, table_size, cuda::NgpBackwardBlocks<T>(), 0, &measure);
  NgpNetworkSamples<T>(std::bit_ceil(n_samples), &measure);
  return measure.byte_size();
}

template class NgpCudaNetwork<float>;
template class NgpCudaNetwork<Half>;

}  // namespace nerf
