#include "engine/kernels/cpu/pair_units.h"

#include <bit>

namespace nerf::kernels::cpu {
namespace {

float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

void PlainProduct(const PairProductParams& params) {
  for (int r = 0; r < params.n_rows; ++r) {
    float* const sums = params.c + static_cast<ptrdiff_t>(r) * params.n_columns;
    for (int n = 0; n < params.n_columns; ++n) sums[n] = 0;
    for (int p = 0; p < params.n_pairs; ++p) {
      const uint32_t a = params.a[r * params.row_step + p * params.pair_step];
      const float low = Low(a), high = High(a);
      const uint32_t* const b = params.b + static_cast<ptrdiff_t>(p) * params.n_columns;
      for (int n = 0; n < params.n_columns; ++n) {
        sums[n] += high * High(b[n]);
        sums[n] += low * Low(b[n]);
      }
    }
  }
}

constexpr PairUnit kPlainUnit{.name = "BF16_PLAIN", .product = PlainProduct};

const PairUnit* chosen_unit = nullptr;

}  // namespace

const std::vector<PairUnit>& PairUnits() {
  static const std::vector<PairUnit> units = [] {
    std::vector<PairUnit> found;
    for (const PairUnit* unit : {AmxUnit(), Avx512Bf16Unit()}) {
      if (unit != nullptr) found.push_back(*unit);
    }
    found.push_back(kPlainUnit);
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
