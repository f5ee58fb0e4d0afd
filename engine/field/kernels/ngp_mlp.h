#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/half_float.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels::cuda {

// The two MLPs of the ngp field (engine/base/layouts/ngp_layers.h), each in one kernel. Weights are
// one buffer [kNgpWeights]; padding columns of the last layer are zeros.

// T = Half: weights and activations in half precision, sums in fp32, on tensor cores. T = float:
// plain fp32, the reference. All pointers are to device memory. Sample arrays have range.capacity
// elements; encodings are planes of two features [16][stride][2], as kernels/hash_encoding.h writes
// them.

// What some rays add to the sums of the color MLP's first layer, before its ReLU: row of[r] of
// terms [n_terms][64] for ray r, or the first row where `of` is null. Without terms the kernels are
// others.
struct NgpRayTerms {
  const float* terms = nullptr;  // null: none
  const int32_t* of = nullptr;
};

// Density of the samples i in range:
//   sigmas[i] = DensityFromOutput(output 0, shift),
//   alphas[i] = 1 - exp(-sigmas[i] deltas[i]), unless null,
//   geometry[16 i + j] = output j, unless null,
//   values[cells[i]] = max(values[cells[i]], sigmas[i] * step_length), unless values is null or
//   *skip != 0: the update of the occupancy grid.
// Work: 6.1 kFLOP per sample; 68 bytes read and 40 written in half precision.
template <typename T>
struct NgpDensityParams {
  DeviceRange range;
  const T* weights = nullptr;
  const T* encodings = nullptr;
  uint32_t stride = 0;
  float shift = 0;
  const float* deltas = nullptr;
  float* sigmas = nullptr;
  float* alphas = nullptr;
  T* geometry = nullptr;
  const uint32_t* cells = nullptr;
  float step_length = 0;
  const uint32_t* skip = nullptr;
  float* values = nullptr;
};

// Colors [k] of the kept samples k in range, sRGB in [0, 1]. Sample k's geometry is at row rows[k]
// (k if rows is null), and the harmonics of its ray, [n_rays][16], at ray_of[that row]. Work: 14
// kFLOP per sample; 84 bytes read and 12 written in half precision.
template <typename T>
struct NgpColorParams {
  DeviceRange range;
  const T* weights = nullptr;
  const uint32_t* rows = nullptr;
  const uint32_t* ray_of = nullptr;
  const T* harmonics = nullptr;
  const T* geometry = nullptr;
  Vec3* colors = nullptr;
  NgpRayTerms terms = {};
};

// Backward pass of both MLPs. The forward activations are recomputed, which is cheaper than storing
// and loading 1.1 KB per sample. grads [k][4] are those of kernels/composite.h; sample k's encoding
// is at rows[k].
//   grad_encodings[(p * grad_stride + k) * 2 + f] = gradient of its encoding (plane p, feature f).
//   weight_gradients[b][kNgpWeights] = sum over the samples of block b, for b in [0, n_blocks),
//   in a fixed order. Every row is written, except the padding columns.
// Gradients are clamped to the range of T. Those of terms are summed over the samples of a ray, as
// far as a warp has them, before they are rounded to fixed point.
// Work: 57 kFLOP per sample; 120 bytes read and 128 written in half precision.
template <typename T>
struct NgpBackwardParams {
  DeviceRange range;
  int n_blocks = 0;  // rows of weight_gradients
  const T* weights = nullptr;
  const uint32_t* rows = nullptr;
  const uint32_t* ray_of = nullptr;
  const T* harmonics = nullptr;
  const T* encodings = nullptr;
  uint32_t stride = 0;
  const float* grads = nullptr;
  float* grad_encodings = nullptr;
  uint32_t grad_stride = 0;
  float* weight_gradients = nullptr;
  NgpRayTerms terms = {};         // with `of`
  int64_t* grad_terms = nullptr;  // [n_terms][64], added to, in fixed point (hash_encoding.h)
};

void NgpDensity(const NgpDensityParams<float>& params, Stream stream);
void NgpDensity(const NgpDensityParams<Half>& params, Stream stream);
void NgpColor(const NgpColorParams<float>& params, Stream stream);
void NgpColor(const NgpColorParams<Half>& params, Stream stream);
void NgpBackward(const NgpBackwardParams<float>& params, Stream stream);
void NgpBackward(const NgpBackwardParams<Half>& params, Stream stream);

// Shared memory per block of the backward pass, in bytes.
template <typename T>
size_t NgpBackwardSharedBytes();
template <>
size_t NgpBackwardSharedBytes<float>();
template <>
size_t NgpBackwardSharedBytes<Half>();

// The n_blocks at which the backward pass is fastest on the current device.
template <typename T>
int NgpBackwardBlocks();
template <>
int NgpBackwardBlocks<float>();
template <>
int NgpBackwardBlocks<Half>();

}  // namespace nerf::kernels::cuda
