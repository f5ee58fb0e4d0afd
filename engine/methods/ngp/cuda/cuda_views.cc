#include "engine/methods/ngp/cuda/cuda_views.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

std::vector<float> FromFixed(const Buffer<int64_t>& sums, float factor) {
  std::vector<float> values(sums.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(sums[i]) / cuda::kFixedPointOne * factor);
  }
  return values;
}

}  // namespace

CudaViewValues::CudaViewValues(const TrainConfig& config, size_t n_views, BufferAllocator* from)
    : gains(ExposureRate(config) > 0 ? n_views : 0, from),
      terms(Ngp(config).appearance_rate > 0 ? kHiddenWidth * n_views : 0, from),
      grad_log_gains(3 * gains.size(), from),
      grad_terms(terms.size(), from) {}

NgpCudaViews::NgpCudaViews(const TrainConfig& config, const SceneGeometry& geometry,
                           std::span<const View> views)
    : config_(config),
      learned_(config, geometry, views),
      device_(config, views.size(), cuda::DeviceAllocator()),
      host_(config, views.size(), cuda::PinnedAllocator()) {
  CopyToPinned();
}

void NgpCudaViews::CopyToPinned() {
  std::copy_n(learned_.exposures.gains(), host_.gains.size(), host_.gains.data());
  std::copy_n(learned_.appearances.terms(), host_.terms.size(), host_.terms.data());
}

void NgpCudaViews::RecordBegin(kernels::Stream stream) {
  const auto bring = [&](const auto& from, auto& to) {
    if (!to.empty()) cuda::CopyToDevice(to.data(), from.data(), to.byte_size(), stream);
  };
  bring(host_.gains, device_.gains);
  bring(host_.terms, device_.terms);
  for (Buffer<int64_t>* sums : {&device_.grad_log_gains, &device_.grad_terms}) {
    if (!sums->empty()) cuda::Fill(sums->data(), 0, sums->byte_size(), stream);
  }
}

void NgpCudaViews::RecordEnd(kernels::Stream stream) {
  const auto bring = [&](const auto& from, auto& to) {
    if (!to.empty()) cuda::CopyToHost(to.data(), from.data(), to.byte_size(), stream);
  };
  bring(device_.grad_log_gains, host_.grad_log_gains);
  bring(device_.grad_terms, host_.grad_terms);
}

void NgpCudaViews::Update(const NgpParameters& parameters, const RayBatch& batch, int t,
                          float factor, const CudaRayResults& results,
                          std::vector<LensCamera>* cameras) {
  const NgpSettings& settings = Ngp(config_);
  const float rate = batch.learning_rate;
  if (learned_.HasRayGradients()) {
    NERF_CHECK(batch.views.size() == static_cast<size_t>(batch.n_rays));
    grad_rays_.assign(batch.n_rays, RayGradient());
    for (uint32_t r = (kPoseRays - batch.step % kPoseRays) % kPoseRays; r < grad_rays_.size();
         r += kPoseRays) {
      const RayGradient& found = results.gradients[r / kPoseRays];
      grad_rays_[r] = {found.origin * factor, found.direction * factor};
    }
    learned_.UpdateFromRays(config_, parameters, batch, t, grad_rays_, cameras);
  }
  if (!learned_.exposures.empty()) {
    learned_.exposures.UpdateFromSums(parameters.TableAdam(rate * ExposureRate(config_), t),
                                      FromFixed(host_.grad_log_gains, factor));
  }
  if (!learned_.appearances.empty()) {
    learned_.appearances.UpdateFromSums(parameters.TableAdam(rate * settings.appearance_rate, t),
                                        parameters.WeightsAdam(rate, t),
                                        FromFixed(host_.grad_terms, factor), &pool_);
  }
  CopyToPinned();
}

void NgpCudaViews::Take(LearnedViews read) {
  learned_ = std::move(read);
  CopyToPinned();
}

}  // namespace nerf
