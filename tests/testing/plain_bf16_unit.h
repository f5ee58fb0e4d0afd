#pragma once

namespace nerf {

// Adds the bf16 unit "BF16_PLAIN" (kernels/cpu/bf16_units.h): the AMX unit's layers on emulated
// tiles (plain_tiles.h), for machines without bf16 instructions. Slow. May be called repeatedly,
// while no kernel runs.
void AddPlainBf16Unit();

}  // namespace nerf
