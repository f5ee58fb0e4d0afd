#pragma once

#include <cstdint>

namespace nerf {

// IEEE 754 half precision, in integer arithmetic throughout: independent of the rounding and
// denormal modes of the thread.

// Rounds to the nearest half, ties to even; beyond 65504 to infinity. A NaN stays one.
uint16_t FloatToHalf(float value);
// Exact.
float HalfToFloat(uint16_t half);

}  // namespace nerf
