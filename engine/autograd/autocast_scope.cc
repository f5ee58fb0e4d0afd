#include "engine/autograd/autocast_scope.h"

#include <ATen/autocast_mode.h>

namespace nerf::autograd {

AutocastScope::AutocastScope(bool enabled) : enabled_(enabled) {
  if (!enabled_) return;
  was_enabled_ = at::autocast::is_cpu_enabled();
  was_cached_ = at::autocast::is_autocast_cache_enabled();
  dtype_before_ = at::autocast::get_autocast_cpu_dtype();
  at::autocast::set_autocast_cpu_dtype(c10::ScalarType::BFloat16);
  at::autocast::set_autocast_cache_enabled(true);
  at::autocast::set_cpu_enabled(true);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_cpu_enabled(was_enabled_);
  at::autocast::set_autocast_cache_enabled(was_cached_);
  at::autocast::set_autocast_cpu_dtype(dtype_before_);
}

}  // namespace nerf::autograd
