#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace nerf::autograd {

// While it lives, LibTorch's autocast multiplies the matrices of this thread's tensors on a kind of
// devices, the CPU or CUDA, in bf16; results of such operations are bf16. Leaves are rounded once a
// scope: a cast is kept for all uses of the leaf and forgotten at the end, so that the next scope
// sees leaves that have changed, and one that takes gradients sees no casts that were made without.
// The end, also by an exception, restores the thread's autocast state. With enabled = false it does
// nothing. The backward pass needs no scope: it follows the types of the forward pass.
class AutocastScope {
 public:
  explicit AutocastScope(bool enabled, c10::DeviceType device = c10::kCPU);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool enabled_, is_cpu_;
  bool was_enabled_ = false, was_cached_ = false;
  c10::ScalarType dtype_before_ = c10::ScalarType::BFloat16;
};

}  // namespace nerf::autograd
