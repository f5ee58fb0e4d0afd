#include "engine/field/kernels/cpu/bf16_units.h"

namespace nerf::kernels::cpu {
namespace {

const Bf16Unit* selected_unit = nullptr;

std::vector<const Bf16Unit*>& MutableUnits() {
  static std::vector<const Bf16Unit*> units = [] {
    std::vector<const Bf16Unit*> found;
    for (const Bf16Unit* unit : {AmxUnit(), Avx512Bf16Unit()}) {
      if (unit != nullptr) found.push_back(unit);
    }
    return found;
  }();
  return units;
}

const Bf16Unit* FindUnit(std::string_view name) {
  for (const Bf16Unit* unit : Bf16Units()) {
    if (name == unit->name) return unit;
  }
  return nullptr;
}

}  // namespace

const std::vector<const Bf16Unit*>& Bf16Units() { return MutableUnits(); }

void AddBf16Unit(const Bf16Unit* unit) {
  if (FindUnit(unit->name) == nullptr) MutableUnits().push_back(unit);
}

const Bf16Unit* SelectedBf16Unit() { return selected_unit; }

bool SelectBf16Unit(std::string_view name) {
  const Bf16Unit* const unit = FindUnit(name);
  if (unit == nullptr && !name.empty()) return false;
  selected_unit = unit;
  return true;
}

}  // namespace nerf::kernels::cpu
