#pragma once

#include <string_view>
#include <vector>

#include "engine/kernels/cpu/bf16_unit.h"

namespace nerf::kernels::cpu {

// Units that this machine has and this build was compiled for: "AMX", "AVX512_BF16"; the quickest
// first, and after them "BF16_PLAIN", loops that every machine has, for tests.
const std::vector<Bf16Unit>& Bf16Units();

// The unit that dense layers multiply with; nullptr for fp32 without pairs, as from the start.
const Bf16Unit* SelectedBf16Unit();
// Chooses by name; false, and nothing changes, where there is no such unit. "" takes nullptr. For
// the whole process: called while no kernel runs.
bool SelectBf16Unit(std::string_view name);

}  // namespace nerf::kernels::cpu
