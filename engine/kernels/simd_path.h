#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nerf::kernels::cpu {

// Name of the instruction set that the kernels run with, as Highway names it: "AVX3_DL", "AVX3",
// "AVX2", "SSE4", "NEON", ..., or of what multiplies the MLPs' layers beside it. The best one of
// this machine in fp32 but where another path was taken.
const char* SimdPath();

// All that this machine has: the instruction sets, the best first, and behind them what multiplies
// the MLPs' layers in bf16 beside the best of them: "AMX", "AVX512_BF16".
std::vector<std::string> SimdPaths();

// Takes the path that is quickest as far as that was measured: AMX where the machine has it,
// AVX512_BF16 on processors of AMD that have it, else the best instruction set with layers in fp32.
// Called as ForceSimdPath is.
void SelectFastestSimdPath();

// Makes the kernels run with one of SimdPaths(), with the first of them ("FP32"), or with
// "BF16_PLAIN", the slow stand-in for the paths in bf16 that tests have; false, and nothing
// changes, where the name is none of them. For the whole process: called before its first kernel,
// from one thread.
bool ForceSimdPath(std::string_view name);

}  // namespace nerf::kernels::cpu
