#pragma once

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/field_outputs.h"

namespace nerf::kernels::cuda {

__device__ inline void StoreDensity(const DensityTargets& to, uint32_t i, float sigma) {
  to.sigmas[i] = sigma;
  if (to.alphas != nullptr) to.alphas[i] = AlphaFromDensity(sigma, to.deltas[i]);
  if (to.values == nullptr || (to.skip != nullptr && *to.skip != 0)) return;
  // Values are not negative, so their bits compare as they do. Most samples change nothing.
  float* const value = to.values + to.cells[i];
  const float seen = sigma * to.step_length;
  if (seen > *value) atomicMax(reinterpret_cast<unsigned*>(value), __float_as_uint(seen));
}

}  // namespace nerf::kernels::cuda
