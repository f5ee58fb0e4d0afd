#include "engine/methods/ngp/cuda/cuda_ngp_step.h"

#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/lane_sums.h"
#include "engine/field/kernels/ngp_mlp.h"
#include "engine/field/kernels/ray_gradients.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/train/schedule.h"

// What a step's graph holds from the samples that count to the updated parameters.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

// Of one ray in kPoseRays.
template <typename T>
void NgpCudaStep<T>::FindRayGradients() {
  cuda::RayGradients({.shape = ActiveShape(),
                      .table = arrays_.table.data(),
                      .ray_capacity = shape_.ray_capacity,
                      .n_rays = &control_.data()->n_rays,
                      .step = &control_.data()->step,
                      .period = kPoseRays,
                      .ray_offsets = rays_.offsets.data(),
                      .rows = samples_.rows.data(),
                      .positions = samples_.positions.data(),
                      .t_middles = samples_.t_middles.data(),
                      .deltas = samples_.deltas.data(),
                      .grad_features = samples_.grad_encodings.data(),
                      .stride = shape_.sample_capacity,
                      .space = SpaceOf(NgpNetworkOf(config_, state_->geometry)),
                      .gradients = rays_.results.gradients.data()},
                     stream_);
}

// Color, loss and the backward pass down to the encodings of the samples that count.
template <typename T>
void NgpCudaStep<T>::TrainSamples(const CudaRayWork& work, const kernels::DeviceRange& kept) {
  cuda::NgpColor(
      cuda::NgpColorParams<T>{.range = kept,
                              .weights = Trained(arrays_.weights, training_.weight_copies),
                              .rows = samples_.rows.data(),
                              .ray_of = samples_.ray_of.data(),
                              .harmonics = rays_.harmonics.data(),
                              .geometry = samples_.geometry.data(),
                              .colors = samples_.colors.data(),
                              .terms = Terms()},
      stream_);
  cuda::CompositeLossParams loss = work.Loss();
  loss.extras = {
      .has_horizons = needs_.horizons,
      .ray_weights = rays_.batch.weights.data(),
      .views = rays_.batch.views.data(),
      .view_gains = views_.gains(),
      .grad_log_gains = views_.grad_log_gains(),
      .depths = rays_.batch.depths.data(),
      .depth_weight = Ngp(config_).depth_weight,
      .near_gradients = Ngp(config_).near_gradients,
      .ray_errors = rays_.results.errors.data(),
      .rays_per_pixel = RaysPerPixel(config_) > 1 ? &control_.data()->rays_per_pixel : nullptr};
  cuda::CompositeLoss(loss, stream_);
  if (ranks_.n_rows() == 0) {
    BackwardMlps(kept);
    return;
  }
  // Row by row, each of which starts at the first block, so that its sums depend on its rays alone.
  const IndexRange rows = ranks_.own_rows();
  const int n_own = rows.end - rows.begin;
  if (n_own == 0) return;
  cuda::CountInRanges({.n = n_own,
                       .bounds = control_.data()->row_rays,
                       .offsets = rays_.offsets.data(),
                       .counts = training_.row_samples.data()},
                      stream_);
  for (int i = 0; i < n_own; ++i) {
    BackwardMlps({shape_.sample_capacity, training_.row_samples.data(), i});
    cuda::SumRows({.n_rows = n_backward_blocks_,
                   .n = kNgpWeights,
                   .rows = training_.weight_gradients.data(),
                   .sums = training_.row_gradients.data() +
                           static_cast<size_t>(kNgpWeights) * (rows.begin + i)},
                  stream_);
  }
}

template <typename T>
void NgpCudaStep<T>::BackwardMlps(const kernels::DeviceRange& range) {
  cuda::NgpBackward(
      cuda::NgpBackwardParams<T>{.range = range,
                                 .n_blocks = n_backward_blocks_,
                                 .weights = Trained(arrays_.weights, training_.weight_copies),
                                 .rows = samples_.rows.data(),
                                 .ray_of = samples_.ray_of.data(),
                                 .harmonics = rays_.harmonics.data(),
                                 .encodings = samples_.encodings.data(),
                                 .stride = shape_.sample_capacity,
                                 .grads = samples_.grads.data(),
                                 .grad_encodings = samples_.grad_encodings.data(),
                                 .grad_stride = shape_.sample_capacity,
                                 .weight_gradients = training_.weight_gradients.data(),
                                 .terms = Terms(),
                                 .grad_terms = views_.grad_terms()},
      stream_);
}

template <typename T>
void NgpCudaStep<T>::UpdateWeights(kernels::Stream stream) {
  if (Ngp(config_).frozen == Frozen::kMlp) return;
  const bool by_rows = ranks_.n_rows() > 0;
  const Buffer<float>& gradients = by_rows ? training_.row_gradients : training_.weight_gradients;
  cuda::AdamDense({.settings = &control_.data()->weights,
                   .skip = &counts_.data()->overflow,
                   .n = kNgpWeights,
                   .n_parts = by_rows ? ranks_.n_rows() : n_backward_blocks_,
                   .gradients = gradients.data(),
                   .parameters = arrays_.weights.data(),
                   .first_moments = arrays_.weights_first.data(),
                   .second_moments = arrays_.weights_second.data(),
                   .half_copies = training_.weight_copies.data(),
                   .not_finite = &counts_.data()->not_finite},
                  stream);
  if (warp_ != nullptr)
    warp_->Update(&counts_.data()->overflow, &counts_.data()->not_finite, stream);
}

template <typename T>
void NgpCudaStep<T>::BackwardTable(const kernels::DeviceRange& kept) {
  if (Ngp(config_).frozen == Frozen::kTable) return;
  cuda::HashEncodeBackward({.shape = ActiveShape(),
                            .range = kept,
                            .positions = EncodedPositions(),
                            .rows = samples_.rows.data(),
                            .grad_features = samples_.grad_encodings.data(),
                            .stride = shape_.sample_capacity,
                            .grad_table = training_.table_gradients.data(),
                            .fixed_grad_table = training_.fixed_table_gradients.data()},
                           stream_);
}

template <typename T>
void NgpCudaStep<T>::BackwardWarp(const kernels::DeviceRange& kept) {
  warp_->Backward({.shape = ActiveShape(),
                   .kept = kept,
                   .table = arrays_.table.data(),
                   .rows = samples_.rows.data(),
                   .unit = samples_.positions.data(),
                   .ray_of = samples_.ray_of.data(),
                   .views = rays_.batch.views.data(),
                   .grad_features = samples_.grad_encodings.data(),
                   .stride = shape_.sample_capacity},
                  stream_);
}

// Of the part that this rank owns.
template <typename T>
void NgpCudaStep<T>::UpdateTable() {
  if (Ngp(config_).frozen == Frozen::kTable) return;
  const ElementRange own = ranks_.own_table();
  const auto from = [&own](auto& array) {
    return array.empty() ? nullptr : array.data() + own.begin;
  };
  cuda::AdamSparse({.settings = &control_.data()->table,
                    .skip = &counts_.data()->overflow,
                    .n = static_cast<int64_t>(own.size()),
                    .gradients = from(training_.table_gradients),
                    .fixed_gradients = from(training_.fixed_table_gradients),
                    .parameters = from(arrays_.table),
                    .first_moments = from(arrays_.table_first),
                    .second_moments = from(arrays_.table_second),
                    .half_copies = from(training_.table_copies)},
                   stream_);
}

template <typename T>
void NgpCudaStep<T>::UpdateAverages() {
  const float decay = AverageDecay(config_, kNgpAverageInterval);
  const auto average = [&](const Buffer<float>& parameters, ElementRange part,
                           Buffer<float>& averages) {
    cuda::MovingAverage({.decay = decay,
                         .n = static_cast<int64_t>(part.size()),
                         .parameters = parameters.data() + part.begin,
                         .averages = averages.data() + part.begin},
                        stream_);
  };
  average(arrays_.table, ranks_.own_table(), arrays_.table_average);
  average(arrays_.weights, {0, arrays_.weights.size()}, arrays_.weights_average);
  views_.learned().appearances.UpdateAverages(decay);
  if (warp_ != nullptr) warp_->UpdateAverages(decay, stream_);
}

template void NgpCudaStep<float>::FindRayGradients();
template void NgpCudaStep<Half>::FindRayGradients();
template void NgpCudaStep<float>::TrainSamples(const CudaRayWork&, const kernels::DeviceRange&);
template void NgpCudaStep<Half>::TrainSamples(const CudaRayWork&, const kernels::DeviceRange&);
template void NgpCudaStep<float>::BackwardWarp(const kernels::DeviceRange&);
template void NgpCudaStep<Half>::BackwardWarp(const kernels::DeviceRange&);
template void NgpCudaStep<float>::UpdateWeights(kernels::Stream);
template void NgpCudaStep<Half>::UpdateWeights(kernels::Stream);
template void NgpCudaStep<float>::BackwardTable(const kernels::DeviceRange&);
template void NgpCudaStep<Half>::BackwardTable(const kernels::DeviceRange&);
template void NgpCudaStep<float>::UpdateTable();
template void NgpCudaStep<Half>::UpdateTable();
template void NgpCudaStep<float>::UpdateAverages();
template void NgpCudaStep<Half>::UpdateAverages();

}  // namespace nerf
