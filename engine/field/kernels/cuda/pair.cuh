#pragma once

namespace nerf::kernels::cuda {

// Two neighboring values that are loaded and stored at once.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T x, y;
};

}  // namespace nerf::kernels::cuda
