#pragma once

namespace nerf {

// Gradient lanes of a CUDA step whose sums must not depend on the number of ranks
// (cuda_deterministic, engine/field/parameters/gradient_lanes.h), and so the most ranks that share
// it.
inline constexpr int kCudaLanes = 8;

}  // namespace nerf
