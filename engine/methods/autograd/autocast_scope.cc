#include "engine/methods/autograd/autocast_scope.h"

#include <ATen/autocast_mode.h>

namespace nerf::autograd {
namespace {

namespace autocast = at::autocast;

void SetAutocast(bool is_cpu, bool enabled, c10::ScalarType dtype) {
  is_cpu ? autocast::set_autocast_cpu_dtype(dtype) : autocast::set_autocast_gpu_dtype(dtype);
  is_cpu ? autocast::set_cpu_enabled(enabled) : autocast::set_enabled(enabled);
}

}  // namespace

AutocastScope::AutocastScope(bool enabled, c10::DeviceType device)
    : enabled_(enabled), is_cpu_(device == c10::kCPU) {
  if (!enabled_) return;
  was_enabled_ = is_cpu_ ? autocast::is_cpu_enabled() : autocast::is_enabled();
  was_cached_ = autocast::is_autocast_cache_enabled();
  dtype_before_ = is_cpu_ ? autocast::get_autocast_cpu_dtype() : autocast::get_autocast_gpu_dtype();
  autocast::set_autocast_cache_enabled(true);
  SetAutocast(is_cpu_, true, c10::ScalarType::BFloat16);
  autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  autocast::decrement_nesting();
  autocast::clear_cache();
  SetAutocast(is_cpu_, was_enabled_, dtype_before_);
  autocast::set_autocast_cache_enabled(was_cached_);
}

}  // namespace nerf::autograd
