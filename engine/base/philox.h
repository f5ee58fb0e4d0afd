#pragma once

#include <array>
#include <cstdint>

#include "engine/base/check.h"

namespace nerf {

// Philox4x32-10: four random 32-bit words as a pure function of a 128-bit counter and a 64-bit key.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
NERF_HD inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Purpose of a random stream. It is part of the counter, so that no two purposes share numbers.
enum class RandomUse : uint32_t {
  kRayPixel = 0,
  kRayJitter = 1,
  kGridCell = 2,
  kInit = 3,
  kTest = 4,
  kDepthPoint = 5,
  kBackground = 6,
  kSplatPlace = 7
};

// Four random words, a pure function of the arguments.
NERF_HD inline std::array<uint32_t, 4> RandomWords(uint64_t seed, RandomUse use, uint32_t step,
                                                   uint32_t index) {
  return Philox4x32({index, step, static_cast<uint32_t>(use), 0}, seed);
}

// Uniform in [0, 1): the top 24 bits, so that every value is exact in a float.
NERF_HD inline float UniformFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// Uniform in [0, n), by multiply-shift.
NERF_HD inline uint32_t UniformIndex(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>((uint64_t{word} * n) >> 32);
}

// The same for n of up to 64 bits: the high 64 bits of a 128-bit product.
NERF_HD inline uint64_t UniformIndex64(uint32_t high, uint32_t low, uint64_t n) {
  const uint64_t word = (uint64_t{high} << 32) | low;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * n) >> 64);
}

}  // namespace nerf
