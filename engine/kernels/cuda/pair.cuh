#pragma once

namespace nerf::kernels::cuda {

// Two neighbors that are loaded and stored as one.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T x, y;
};

}  // namespace nerf::kernels::cuda
