#include "engine/methods/ngp/view_exposures.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kNames[] = {"view.log_gains", "adam.first.view.log_gains",
                                  "adam.second.view.log_gains"};

}  // namespace

ViewExposures::ViewExposures(int n_views)
    : log_gains_(3 * static_cast<size_t>(n_views)),
      first_moments_(log_gains_.size()),
      second_moments_(log_gains_.size()),
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
  kernels::cpu::AdamDense({.settings = settings,
                           .n = static_cast<int64_t>(log_gains_.size()),
                           .parameters = log_gains_.data(),
                           .first_moments = first_moments_.data(),
                           .second_moments = second_moments_.data(),
                           .gradients = gradients_.data()});
  for (size_t channel = 0; channel < 3; ++channel) {
    double sum = 0;
    for (size_t i = channel; i < log_gains_.size(); i += 3) sum += log_gains_[i];
    const auto mean = static_cast<float>(sum / static_cast<double>(gains_.size()));
    for (size_t i = channel; i < log_gains_.size(); i += 3) log_gains_[i] -= mean;
  }
  FindGains();
}

void ViewExposures::Save(TensorFile* file) const {
  if (empty()) return;
  const std::vector<float>* const values[] = {&log_gains_, &first_moments_, &second_moments_};
  for (int i = 0; i < 3; ++i) {
    file->tensors[kNames[i]] =
        TensorFromFloats(values[i]->data(), {static_cast<uint32_t>(gains_.size()), 3}, DType::kF32);
  }
}

absl::Status ViewExposures::Load(const TensorFile& file) {
  if (empty()) return absl::OkStatus();
  std::vector<float> held[3];
  for (int i = 0; i < 3; ++i) {
    const auto found = file.tensors.find(kNames[i]);
    if (found == file.tensors.end() || found->second.dtype != DType::kF32 ||
        found->second.shape != std::vector<uint32_t>{static_cast<uint32_t>(gains_.size()), 3}) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} is missing or not of {} views", kNames[i], gains_.size()));
    }
    held[i] = ToFloats(found->second);
  }
  log_gains_ = std::move(held[0]);
  first_moments_ = std::move(held[1]);
  second_moments_ = std::move(held[2]);
  FindGains();
  return absl::OkStatus();
}

}  // namespace nerf
