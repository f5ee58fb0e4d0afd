#pragma once

#include <bit>
#include <cstdint>

namespace nerf {

// bfloat16, the upper half of a float: its exponents, eight bits of mantissa. Two make a word.

// The nearest ones, ties to even. A NaN stays one unless its mantissa is all ones.
inline uint32_t Bf16Pair(float low, float high) {
  const auto rounded = [](float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  return rounded(low) | rounded(high) << 16;
}

// Exact.
inline float Bf16Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
inline float Bf16High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

}  // namespace nerf
