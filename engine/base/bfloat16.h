#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/check.h"

namespace nerf {

// bfloat16 is the upper half of a float: the same exponent and 8 bits of precision. Two are packed
// into a 32-bit word.

// Rounds both values to nearest, ties to even. A NaN stays NaN unless its mantissa is all ones.
NERF_HD inline uint32_t Bf16Pair(float low, float high) {
  const auto rounded = [](float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  return rounded(low) | rounded(high) << 16;
}

// The halves of a word as floats; exact.
NERF_HD inline float Bf16Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
NERF_HD inline float Bf16High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

}  // namespace nerf
