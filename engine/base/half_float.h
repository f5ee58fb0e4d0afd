#pragma once

#include <cstdint>

namespace nerf {

// IEEE 754 half precision in integer arithmetic, so that results do not depend on the thread's
// rounding and denormal modes.

// Rounds to the nearest half, ties to even; infinity from 65520 on. A NaN stays NaN.
uint16_t FloatToHalf(float value);
// Exact.
float HalfToFloat(uint16_t half);

// A half as an array element.
struct Half {
  uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
inline Half HalfFromFloat(float value) { return {FloatToHalf(value)}; }
inline float FloatFromHalf(Half half) { return HalfToFloat(half.bits); }

}  // namespace nerf
