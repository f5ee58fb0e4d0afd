#include "engine/kernels/cpu/bf16_units.h"

namespace nerf::kernels::cpu {
namespace {

const Bf16Unit* chosen_unit = nullptr;

}  // namespace

const std::vector<Bf16Unit>& Bf16Units() {
  static const std::vector<Bf16Unit> units = [] {
    std::vector<Bf16Unit> found;
    for (const Bf16Unit* unit : {AmxUnit(), Avx512Bf16Unit(), PlainBf16Unit()}) {
      if (unit != nullptr) found.push_back(*unit);
    }
    return found;
  }();
  return units;
}

const Bf16Unit* SelectedBf16Unit() { return chosen_unit; }

bool SelectBf16Unit(std::string_view name) {
  if (name.empty()) {
    chosen_unit = nullptr;
    return true;
  }
  for (const Bf16Unit& unit : Bf16Units()) {
    if (name == unit.name) {
      chosen_unit = &unit;
      return true;
    }
  }
  return false;
}

}  // namespace nerf::kernels::cpu
