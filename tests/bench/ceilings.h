#pragma once

#include <vector>

#include "engine/tool/bench_registry.h"

namespace nerf {

// What this machine can do at most, measured with loops that do nothing else:
//   ceiling_fma             fp32 multiply-adds between registers, with the SIMD path of the kernels
//   ceiling_gather_2^N      reads of 8 bytes at random places of a table of 2^N entries
// N: the gradients of a level of 2^17 and 2^19 entries (18, 20), and the halves that a field of
// eight such levels is read from (20, 22). The rate of copying is the registry's bench "copy".
std::vector<Bench> CeilingBenches();

namespace ceilings {
// n_rounds of independent multiply-adds on all of the SIMD path's registers. Returns how many FLOP
// that was; *sink keeps the compiler from leaving them out.
double FmaLoop(int64_t n_rounds, float* sink);
}  // namespace ceilings

}  // namespace nerf
