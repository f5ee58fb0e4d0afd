#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/layouts/voxel_layout.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/field_outputs.h"
#include "engine/field/kernels/stream.h"

// Sparse voxels on a device (engine/base/layouts/voxel_layout.h). Positions lie in the unit cube
// that the voxels fill. All pointers are to device memory.
namespace nerf::kernels::cuda {

struct DeviceVoxels {
  VoxelBricks bricks;
  const float* values = nullptr;
};

// Densities DensityFromOutput(interpolated exponent, shift). Traffic: 8 cache lines per sample.
struct VoxelDensityParams {
  DensityTargets to;
  DeviceVoxels voxels;
  const Vec3* positions = nullptr;
  float shift = 0;
};

// Samples k of a range: rows[k] (k if rows is null) of positions and ray_of. Ray r's direction, of
// unit length, lies r * direction_stride bytes behind `directions`.
struct VoxelSamples {
  DeviceRange range;
  const uint32_t* rows = nullptr;
  const uint32_t* ray_of = nullptr;
  const Vec3* positions = nullptr;
  const Vec3* directions = nullptr;
  size_t direction_stride = sizeof(Vec3);
};

// colors[k] = sigmoid of the sums of interpolated coefficients and harmonics. Traffic: 1 KB per
// sample.
struct VoxelColorParams {
  VoxelSamples samples;
  DeviceVoxels voxels;
  Vec3* colors = nullptr;
};

// Where gradients of voxels are added, laid out as their values: floats, or fixed point
// (hash_encoding.h) whose sums do not depend on the order of additions. One of both is not null.
struct VoxelGradients {
  float* floats = nullptr;
  int64_t* fixed = nullptr;
};

// grads [k][4] are those of kernels/composite.h. Traffic: 1 KB per sample, added atomically.
struct VoxelBackwardParams {
  VoxelSamples samples;
  VoxelBricks bricks;
  const float* grads = nullptr;
  VoxelGradients to;
};

// Adds *scale times the gradient of the total variation to the bricks b < n_bricks with b % period
// == *step % period: density_weight and color_weight times 2 (value - neighbor), summed over the
// stored neighbors along the axes. places [n_bricks]: of the stored bricks in VoxelBricks::bricks.
struct VoxelVariationParams {
  uint32_t n_bricks = 0;
  const uint32_t* places = nullptr;
  DeviceVoxels voxels;
  float density_weight = 0, color_weight = 0;
  const float* scale = nullptr;
  const uint32_t* step = nullptr;
  uint32_t period = 1;
  VoxelGradients to;
};

void VoxelDensity(const VoxelDensityParams& params, Stream stream);
void VoxelColor(const VoxelColorParams& params, Stream stream);
void VoxelBackward(const VoxelBackwardParams& params, Stream stream);
void VoxelVariation(const VoxelVariationParams& params, Stream stream);

}  // namespace nerf::kernels::cuda
