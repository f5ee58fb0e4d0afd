#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nerf::kernels::cpu {

// A SIMD path is an instruction set by Highway's name ("AVX3_DL", "AVX2", "SSE4", "NEON", ...),
// with all layers in fp32, or a bf16 unit ("AMX", "AVX512_BF16"): the MLPs' layers in bf16 and
// everything else with the machine's best instruction set.

// The path in use. Initially the machine's best instruction set.
const char* SimdPath();

// The paths of this machine: its instruction sets, best first, then its bf16 units.
std::vector<std::string> SimdPaths();

// Selects the fastest path by our measurements (docs/inside/measured.md): AMX if the machine has
// it, then AVX512_BF16 on AMD processors, else the best instruction set. When to call: as
// ForceSimdPath.
void SelectFastestSimdPath();

// Selects one of SimdPaths() by name, or the first of them by "FP32". Returns false and changes
// nothing if there is no such path. Applies to the whole process: call it from one thread before
// the first kernel runs.
bool ForceSimdPath(std::string_view name);

}  // namespace nerf::kernels::cpu
