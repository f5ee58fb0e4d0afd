#include "engine/kernels/cpu/pair_units.h"

namespace nerf::kernels::cpu {
namespace {

const PairUnit* chosen_unit = nullptr;

}  // namespace

const std::vector<PairUnit>& PairUnits() {
  static const std::vector<PairUnit> units = [] {
    std::vector<PairUnit> found;
    for (const PairUnit* unit : {AmxUnit(), Avx512Bf16Unit(), PlainPairUnit()}) {
      if (unit != nullptr) found.push_back(*unit);
    }
    return found;
  }();
  return units;
}

const PairUnit* ChosenPairUnit() { return chosen_unit; }

bool ChoosePairUnit(std::string_view name) {
  if (name.empty()) {
    chosen_unit = nullptr;
    return true;
  }
  for (const PairUnit& unit : PairUnits()) {
    if (name == unit.name) {
      chosen_unit = &unit;
      return true;
    }
  }
  return false;
}

}  // namespace nerf::kernels::cpu
