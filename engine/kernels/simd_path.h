#pragma once

namespace nerf::kernels::cpu {

// Name of the instruction set that the kernels run with on this machine, as Highway names it:
// "AVX3_DL", "AVX3", "AVX2", "SSE4", "NEON", ...
const char* SimdPath();

}  // namespace nerf::kernels::cpu
