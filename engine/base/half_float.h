#pragma once

#include <cstdint>

namespace nerf {

// IEEE 754 half precision, in integer arithmetic throughout: independent of the rounding and
// denormal modes of the thread.

// Rounds to the nearest half, ties to even; beyond 65504 to infinity. A NaN stays one.
uint16_t FloatToHalf(float value);
// Exact.
float HalfToFloat(uint16_t half);

// A half as an element of an array.
struct Half {
  uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
inline Half HalfFromFloat(float value) { return {FloatToHalf(value)}; }
inline float FloatFromHalf(Half half) { return HalfToFloat(half.bits); }

}  // namespace nerf
