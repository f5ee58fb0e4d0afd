#pragma once

#include "engine/base/encoded_space.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels::cuda {

// Maps positions, for i in range, to the unit cube of an encoding:
//   positions[i] = space.ToUnit(origin + positions[i] * scale)
// In place, between the kernels that place samples and the encoding, so that those know of no
// contraction. origin and scale bring positions into the training frame: zeros and ones for a march
// that left them there, the outermost box's corner and size for the grid's probes.
// All pointers are to device memory. Traffic: 24 bytes per position.
struct ContractPositionsParams {
  DeviceRange range;
  EncodedSpace space;
  Vec3 origin = {}, scale = {1, 1, 1};
  Vec3* positions = nullptr;
};
void ContractPositions(const ContractPositionsParams& params, Stream stream);

}  // namespace nerf::kernels::cuda
