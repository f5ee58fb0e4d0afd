#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "engine/base/bfloat16.h"
#include "engine/base/check.h"
#include "engine/base/half_float.h"
#include "engine/base/layouts/warp_layers.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// sine and cosine of 2^octave angle.
struct SineCosine {
  float sine, cosine;
};
NERF_HD inline SineCosine OctaveOf(float angle, int octave) {
  SineCosine at{std::sin(angle), std::cos(angle)};
  for (int k = 0; k < octave; ++k) at = {2 * at.sine * at.cosine, 1 - 2 * at.sine * at.sine};
  return at;
}

// Input `column` of the warp (warp_layers.h), of those of a point of the unit cube and of those of
// a time.
NERF_HD inline float PlaceFeature(Vec3 unit, int column) {
  constexpr auto kPi = static_cast<float>(std::numbers::pi);
  if (column >= 6 + 6 * kWarpOctaves) return 0;
  const int axis = column < 6 ? column % 3 : (column - 6) / (2 * kWarpOctaves);
  const float p = 2 * unit[axis] - 1;
  if (column < 3) return p;
  if (column < 6) return p - Bf16Low(Bf16Pair(p, 0));
  const int octave = (column - 6) % (2 * kWarpOctaves);
  const SineCosine at = OctaveOf(kPi * p, octave % kWarpOctaves);
  return octave < kWarpOctaves ? at.sine : at.cosine;
}
NERF_HD inline float TimeFeature(float time, int column) {
  constexpr auto kPi = static_cast<float>(std::numbers::pi);
  if (column == 0) return 1;
  if (column == 1) return time;
  if (column >= 2 + 2 * kTimeOctaves) return 0;
  const SineCosine at = OctaveOf(kPi * time, (column - 2) / 2);
  return column % 2 == 0 ? at.sine : at.cosine;
}

// The warp of method dynamic (engine/methods/dynamic/warp.h): where points of the unit cube are
// encoded. Weights are one buffer [kWarpWeights] in the layout of kWarpLayers; the padding columns
// of the last layer are zeros. T = Half: weights and activations in half precision, sums in fp32,
// on tensor cores. T = float: plain fp32. All pointers are to device memory.
namespace cuda {

// The time of sample i: times[views[ray_of[i]]]. Without ray_of all have times[0]; without times it
// is that of a probe (probe_time.h), from `first` to `last`.
struct PointTimes {
  const float* times = nullptr;
  const int32_t* views = nullptr;    // of rays
  const uint32_t* ray_of = nullptr;  // of samples
  uint32_t seed = 0;
  float first = 0, last = 1;
};

// warped[i] = unit[i] + the warp's shift, held in the unit cube, for i in range. warped may be
// unit. Work: 15 kFLOP and 24 bytes per sample.
template <typename T>
struct PointWarpParams {
  DeviceRange range;
  const T* weights = nullptr;
  PointTimes times;
  const Vec3* unit = nullptr;
  Vec3* warped = nullptr;
};

// Backward pass of the kept samples k in range, at rows[k] of the other arrays, from the gradients
// by their warped points. Coordinates that the forward pass held count nothing.
//   weight_gradients[b][kWarpWeights] = sum over the samples of block b, for b in [0, n_blocks), in
//   a fixed order. Every row is written, except the padding columns.
// Gradients are clamped to the range of T. The activations are recomputed. Work: 50 kFLOP per
// sample.
template <typename T>
struct PointWarpBackwardParams {
  DeviceRange range;
  int n_blocks = 0;
  const T* weights = nullptr;
  PointTimes times;
  const uint32_t* rows = nullptr;
  const Vec3* unit = nullptr;
  const Vec3* warped = nullptr;
  const Vec3* grad_warped = nullptr;  // by k
  float* weight_gradients = nullptr;
};

void PointWarp(const PointWarpParams<float>& params, Stream stream);
void PointWarp(const PointWarpParams<Half>& params, Stream stream);
void PointWarpBackward(const PointWarpBackwardParams<float>& params, Stream stream);
void PointWarpBackward(const PointWarpBackwardParams<Half>& params, Stream stream);

// The n_blocks at which the current device runs all blocks of the backward pass at once.
template <typename T>
int PointWarpBackwardBlocks();
template <>
int PointWarpBackwardBlocks<float>();
template <>
int PointWarpBackwardBlocks<Half>();

}  // namespace cuda

}  // namespace nerf::kernels
