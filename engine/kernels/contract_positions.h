#pragma once

#include "engine/base/contraction.h"
#include "engine/base/vec3.h"
#include "engine/kernels/stream.h"

namespace nerf::kernels::cuda {

// Maps positions, for i in range, to the unit cube of an encoding that covers contracted space:
//   positions[i] = ContractedUnit(kind, (origin + positions[i] * scale - center) / half side)
// In place, between the kernels that place samples and the encoding, so that those know of no
// contraction. origin and scale bring positions into the training frame: zeros and ones for a march
// that left them there, the outermost box's corner and size for the grid's probes.
// All pointers are to device memory. Traffic: 24 bytes per position.
struct ContractPositionsParams {
  DeviceRange range;
  Contraction kind = Contraction::kL2;
  Vec3 origin = {}, scale = {1, 1, 1};
  Vec3 center = {};  // of the level-0 box
  float inverse_half_side = 1;
  Vec3* positions = nullptr;
};
void ContractPositions(const ContractPositionsParams& params, Stream stream);

}  // namespace nerf::kernels::cuda
