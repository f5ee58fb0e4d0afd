#include "engine/field/kernels/simd_path.h"

#include <cstdint>

#include "engine/field/kernels/cpu/bf16_units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/simd_path.cc"
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

const char* SimdPath() {
  const Bf16Unit* const unit = SelectedBf16Unit();
  return unit != nullptr ? unit->name : HWY_DYNAMIC_DISPATCH(TargetName)();
}

std::vector<std::string> SimdPaths() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  for (const Bf16Unit* unit : Bf16Units()) names.emplace_back(unit->name);
  return names;
}

// Only on AMD: on Intel AVX512_BF16 is slower than fp32 (docs/inside/measured.md).
void SelectFastestSimdPath() {
#if defined(__x86_64__)
  const Bf16Unit* unit = AmxUnit();
  if (unit == nullptr && __builtin_cpu_is("amd")) unit = Avx512Bf16Unit();
  if (unit != nullptr) SelectBf16Unit(unit->name);
#endif
}

bool ForceSimdPath(std::string_view name) {
  if (name.empty()) return false;
  if (name == "FP32") return ForceSimdPath(SimdPaths().front());
  int64_t better = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      hwy::DisableTargets(better);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      return SelectBf16Unit("");
    }
    better |= target;
  }
  return SelectBf16Unit(name);
}

}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
