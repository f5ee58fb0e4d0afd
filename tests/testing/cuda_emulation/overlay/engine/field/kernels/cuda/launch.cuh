#pragma once

// Replaces engine/field/kernels/cuda/launch.cuh in the host emulation: the same functions on
// fibers.

#include <algorithm>
#include <cstdint>

#include "engine/field/kernels/stream.h"
#include "tests/testing/cuda_emulation/block_runner.h"
#include "tests/testing/cuda_emulation/emulated_device.h"

namespace nerf::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kBlock = 256;

// Few, so that kernels must loop over their elements.
template <typename Params>
int ResidentBlocks(void (*kernel)(Params), int n_threads, size_t shared_bytes) {
  return 3;
}

template <typename Params>
void Launch(const char* name, void (*kernel)(Params), int n_blocks, int n_threads,
            size_t shared_bytes, Stream stream, Params params) {
  NERF_CHECK(n_blocks >= 1);  // a device refuses an empty grid
  cuda_emulation::Submit(stream, [=] {
    cuda_emulation::RunGrid(
        name, {static_cast<unsigned>(n_blocks), static_cast<unsigned>(n_threads), shared_bytes},
        [&] { kernel(params); });
  });
}

template <typename Params>
void LaunchOver(const char* name, void (*kernel)(Params), uint64_t n, int n_threads, Stream stream,
                Params params) {
  const uint64_t n_blocks = (n + n_threads - 1) / n_threads;
  if (n_blocks == 0) return;
  const uint64_t most = ResidentBlocks(kernel, n_threads, 0);
  Launch(name, kernel, static_cast<int>(std::min(n_blocks, most)), n_threads, 0, stream, params);
}

}  // namespace nerf::kernels::cuda
