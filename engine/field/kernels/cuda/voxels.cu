#include "engine/field/kernels/voxels.h"

#include "engine/field/kernels/cuda/density_targets.cuh"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/fixed_point.cuh"
#include "engine/field/kernels/cuda/launch.cuh"
#include "engine/field/kernels/spherical_harmonics.h"

// A warp has a sample or a voxel, a lane one of its parameters, so that a voxel is read and added
// to at once; densities, which read one parameter of each, have a thread a sample.
namespace nerf::kernels::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
static_assert(kVoxelStride == kWarp);

__global__ void __launch_bounds__(kBlock)
    VoxelDensityKernel(const __grid_constant__ VoxelDensityParams p) {
  const Elements elements = ElementsOf(p.to.range);
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    const VoxelCorners corners(p.positions[i], p.voxels.bricks.resolution);
    float exponent = 0;
    for (int c = 0; c < 8; ++c) {
      const ptrdiff_t offset = corners.OffsetOf(c, p.voxels.bricks);
      exponent +=
          corners.Weight(c) * (offset < 0 ? float{kEmptyExponent} : p.voxels.values[offset]);
    }
    StoreDensity(p.to, i, DensityFromOutput(exponent, p.shift));
  }
}

// A sample as one lane of its warp sees it.
struct LaneSample {
  uint32_t row;
  Vec3 position;
  float harmonic;  // that this lane's coefficient is of
  int channel;     // of it; -1: the exponent or padding
};

__device__ LaneSample SampleOf(const VoxelSamples& samples, uint32_t k) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  LaneSample sample{samples.rows != nullptr ? samples.rows[k] : k, {}, 0, -1};
  sample.position = samples.positions[sample.row];
  if (lane < 1 || lane >= kVoxelFloats) return sample;
  const Vec3 direction =
      *reinterpret_cast<const Vec3*>(reinterpret_cast<const unsigned char*>(samples.directions) +
                                     size_t{samples.ray_of[sample.row]} * samples.direction_stride);
  float all[16];
  SphericalHarmonics4(direction, all);
  sample.channel = (lane - 1) / kVoxelHarmonics;
#pragma unroll
  for (int h = 0; h < kVoxelHarmonics; ++h)
    if ((lane - 1) % kVoxelHarmonics == h) sample.harmonic = all[h];
  return sample;
}

// Calls body(k) for the samples of this thread's warp.
template <typename Body>
__device__ void ForEachWarpSample(const DeviceRange& range, Body body) {
  const Elements elements = ElementsOf(range);
  const uint32_t n_warps = gridDim.x * blockDim.x / kWarp;
  for (uint32_t k = elements.begin + (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
       k < elements.end; k += n_warps) {
    body(k);
  }
}

__global__ void __launch_bounds__(kBlock)
    VoxelColorKernel(const __grid_constant__ VoxelColorParams p) {
  const uint32_t lane = threadIdx.x % kWarp;
  ForEachWarpSample(p.samples.range, [&](uint32_t k) {
    const LaneSample sample = SampleOf(p.samples, k);
    const VoxelCorners corners(sample.position, p.voxels.bricks.resolution);
    float value = 0;
    for (int c = 0; c < 8; ++c) {
      const ptrdiff_t offset = corners.OffsetOf(c, p.voxels.bricks);
      if (offset >= 0) value += corners.Weight(c) * p.voxels.values[offset + lane];
    }
    value *= sample.harmonic;
    __syncwarp();
    Vec3 color;
    for (int channel = 0; channel < 3; ++channel) {
      float sum = sample.channel == channel ? value : 0.0f;
      for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(kAllLanes, sum, lanes);
      color[channel] = 1 / (1 + expf(-sum));
    }
    if (lane == 0) p.colors[k] = color;
  });
}

__device__ void AddGradient(const VoxelGradients& to, size_t at, float value) {
  if (to.fixed != nullptr)
    AddFixed(to.fixed + at, value);
  else
    atomicAdd(to.floats + at, value);
}

__global__ void __launch_bounds__(kBlock)
    VoxelBackwardKernel(const __grid_constant__ VoxelBackwardParams p) {
  const uint32_t lane = threadIdx.x % kWarp;
  ForEachWarpSample(p.samples.range, [&](uint32_t k) {
    const LaneSample sample = SampleOf(p.samples, k);
    const float* const grads = p.grads + 4 * size_t{k};
    const float gradient = sample.channel < 0 ? (lane == 0 ? grads[3] : 0.0f)
                                              : grads[sample.channel] * sample.harmonic;
    if (gradient == 0) return;
    const VoxelCorners corners(sample.position, p.bricks.resolution);
    for (int c = 0; c < 8; ++c) {
      const ptrdiff_t offset = corners.OffsetOf(c, p.bricks);
      if (offset >= 0) AddGradient(p.to, offset + lane, corners.Weight(c) * gradient);
    }
  });
}

__global__ void __launch_bounds__(kBlock)
    VoxelVariationKernel(const __grid_constant__ VoxelVariationParams p) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const VoxelBricks& bricks = p.voxels.bricks;
  const uint32_t first = *p.step % p.period;
  const uint32_t n = p.n_bricks > first ? (p.n_bricks - first + p.period - 1) / p.period : 0;
  const float weight = lane == 0 ? p.density_weight : lane < kVoxelFloats ? p.color_weight : 0;
  const float factor = 2 * *p.scale * weight;
  const int side = bricks.resolution / 4;
  ForEachWarpSample({n * kBrickVoxels}, [&](uint32_t i) {
    const uint32_t brick = first + i / kBrickVoxels * p.period;
    const auto v = static_cast<int>(i % kBrickVoxels), place = static_cast<int>(p.places[brick]);
    const int at[3] = {place % side * 4 + (v & 3), place / side % side * 4 + ((v >> 2) & 3),
                       place / (side * side) * 4 + (v >> 4)};
    const size_t own = size_t{brick} * kBrickFloats + v * kVoxelStride + lane;
    const float here = p.voxels.values[own];
    float gradient = 0;
    for (int j = 0; j < 6; ++j) {
      int next[3] = {at[0], at[1], at[2]};
      next[j / 2] += j % 2 == 0 ? -1 : 1;
      if (next[j / 2] < 0 || next[j / 2] == bricks.resolution) continue;
      const ptrdiff_t offset = bricks.OffsetOf(next[0], next[1], next[2]);
      if (offset >= 0) gradient += factor * (here - p.voxels.values[offset + lane]);
    }
    if (gradient != 0) AddGradient(p.to, own, gradient);
  });
}

}  // namespace

void VoxelDensity(const VoxelDensityParams& params, Stream stream) {
  LaunchOver("voxel_density", VoxelDensityKernel, params.to.range.capacity, kBlock, stream, params);
}
void VoxelColor(const VoxelColorParams& params, Stream stream) {
  LaunchOver("voxel_color", VoxelColorKernel, uint64_t{params.samples.range.capacity} * kWarp,
             kBlock, stream, params);
}
void VoxelBackward(const VoxelBackwardParams& params, Stream stream) {
  LaunchOver("voxel_backward", VoxelBackwardKernel, uint64_t{params.samples.range.capacity} * kWarp,
             kBlock, stream, params);
}
void VoxelVariation(const VoxelVariationParams& params, Stream stream) {
  LaunchOver("voxel_variation", VoxelVariationKernel,
             uint64_t{params.n_bricks} * kBrickVoxels * kWarp / params.period + 1, kBlock, stream,
             params);
}

}  // namespace nerf::kernels::cuda
