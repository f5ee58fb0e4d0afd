#include "engine/methods/ngp/view_parameters/view_exposures.h"

#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "engine/base/check.h"

namespace nerf {

ViewExposures::ViewExposures(int n_views)
    : log_gains_("view.log_gains", {static_cast<uint32_t>(n_views), 3}),
      gradients_(log_gains_.size()),
      gains_(static_cast<size_t>(n_views)) {
  FindGains();
}

void ViewExposures::FindGains() {
  for (size_t view = 0; view < gains_.size(); ++view) {
    for (int channel = 0; channel < 3; ++channel)
      gains_[view][channel] = std::exp(log_gains_[3 * view + channel]);
  }
}

void ViewExposures::Update(const kernels::AdamSettings& settings, std::span<const int32_t> views,
                           std::span<const Vec3> grad_log_gains) {
  NERF_CHECK(views.size() == grad_log_gains.size());
  if (empty()) return;
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  for (size_t ray = 0; ray < views.size(); ++ray) {
    float* const gradient = gradients_.data() + 3 * static_cast<size_t>(views[ray]);
    for (int channel = 0; channel < 3; ++channel) gradient[channel] += grad_log_gains[ray][channel];
  }
  UpdateFromSums(settings, gradients_);
}

void ViewExposures::UpdateFromSums(const kernels::AdamSettings& settings,
                                   std::span<const float> sums) {
  log_gains_.Update(settings, sums);
  for (size_t channel = 0; channel < 3; ++channel) {
    double sum = 0;
    for (size_t i = channel; i < log_gains_.size(); i += 3) sum += std::exp(log_gains_[i]);
    const auto log_mean = static_cast<float>(std::log(sum / static_cast<double>(gains_.size())));
    for (size_t i = channel; i < log_gains_.size(); i += 3) log_gains_[i] -= log_mean;
  }
  FindGains();
}

void ViewExposures::Save(TensorFile* file) const {
  if (empty()) return;
  log_gains_.Save(file);
}

absl::Status ViewExposures::Load(const TensorFile& file) {
  if (empty()) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(log_gains_.Load(file));
  FindGains();
  return absl::OkStatus();
}

}  // namespace nerf
