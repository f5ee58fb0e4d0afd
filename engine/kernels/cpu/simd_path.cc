#include "engine/kernels/simd_path.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/simd_path.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(TargetName);
namespace cpu {

const char* SimdPath() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

std::vector<std::string> SimdPaths() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

bool ForceSimdPath(std::string_view name) {
  int64_t better = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      hwy::DisableTargets(better);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      return true;
    }
    better |= target;
  }
  return false;
}

}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
