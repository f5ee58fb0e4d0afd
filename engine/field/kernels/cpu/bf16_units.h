#pragma once

#include <string_view>
#include <vector>

#include "engine/field/kernels/cpu/bf16_unit.h"

namespace nerf::kernels::cpu {

// The bf16 units of this build and machine, fastest first: "AMX", "AVX512_BF16", and then those
// that were added.
const std::vector<const Bf16Unit*>& Bf16Units();
// Adds a unit unless there is one of this name; the unit is never destroyed. For tests
// (tests/testing/plain_bf16_unit.h): call it while no kernel runs.
void AddBf16Unit(const Bf16Unit* unit);

// The unit that multiplies dense layers; nullptr for fp32, which is the initial state.
const Bf16Unit* SelectedBf16Unit();
// Selects a unit by name, or fp32 by "". Returns false and changes nothing if there is no such
// unit. Applies to the whole process: call it while no kernel runs.
bool SelectBf16Unit(std::string_view name);

}  // namespace nerf::kernels::cpu
