#include "engine/base/half_float.h"

#include <bit>

namespace nerf {

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);  // NaN
  // 65520 is halfway between the largest half and 2^16, and rounds to infinity.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {  // normal in half precision
    const uint32_t rebased = magnitude - 0x38000000u;
    return static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
  }
  if (magnitude <= 0x33000000u)
    return static_cast<uint16_t>(sign);  // at most half of the smallest subnormal
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - exponent;  // 14 to 24
  const uint32_t halfway = (1u << (shift - 1)) - 1u;
  return static_cast<uint16_t>(sign | ((mantissa + halfway + ((mantissa >> shift) & 1u)) >> shift));
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent > 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21u;
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | ((113u - shift) << 23) | (mantissa << 13));
}

}  // namespace nerf
