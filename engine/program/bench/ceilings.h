#pragma once

#include <vector>

#include "engine/program/bench/bench_registry.h"

namespace nerf {

// This machine's peak rates, measured with loops that do nothing else:
//   ceiling_fma             fp32 multiply-adds between registers, with the SIMD path of the kernels
//   ceiling_gather_2^N      reads of 8 bytes at random places of a table of 2^N entries
// N = 18, 20: gradients of a level of 2^17 and 2^19 entries; N = 20, 22: half-precision tables of
// eight such levels. The bench "copy" of the registry measures the copy rate.
std::vector<Bench> CeilingBenches();

namespace ceilings {
// n_rounds of independent multiply-adds on all registers of the SIMD path. Returns the FLOP. *sink
// keeps the compiler from removing them.
double FmaLoop(int64_t n_rounds, float* sink);
}  // namespace ceilings

}  // namespace nerf
