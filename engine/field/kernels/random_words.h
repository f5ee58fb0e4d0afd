#pragma once

#include <cstdint>

#include "engine/base/philox.h"

namespace nerf::kernels::cpu {

// words[w][i] = RandomWords(seed, use, step, first + i)[w] for i in [0, n): the same numbers,
// several at a time.
struct RandomWordsParams {
  uint64_t seed = 0;
  RandomUse use = RandomUse::kRayPixel;
  uint32_t step = 0;
  uint32_t first = 0;
  int n = 0;
  uint32_t* words[4] = {};  // [n] each
};
void FillRandomWords(const RandomWordsParams& params);

}  // namespace nerf::kernels::cpu
