#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/half_float.h"
#include "engine/base/vec3.h"
#include "engine/kernels/stream.h"

namespace nerf::kernels::cuda {

// The two MLPs of the ngp field, each as one kernel: encoding 32 -> 64 -> 16, of which output 0 is
// the density's exponent, and color (16 harmonics, these 16) 32 -> 64 -> 64 -> 3, ReLU between
// layers, no biases. Weights are one buffer; layer l is [n_in][n_out] row-major at its offset, the
// last one padded from 3 to 16 columns of zeros.
struct NgpMlpLayer {
  int offset, n_in, n_out;
};
inline constexpr NgpMlpLayer kNgpMlp[5] = {
    {0, 32, 64}, {2048, 64, 16}, {3072, 32, 64}, {5120, 64, 64}, {9216, 64, 16}};
inline constexpr int kNgpMlpWeights = 10240;

// T is Half: weights and activations in half precision, sums in fp32 on the tensor cores. Or float:
// plain fp32, the reference. All pointers are to device memory. Arrays of samples hold `capacity`
// of them; encodings are planes of two features, [16][stride][2], as kernels/hash_encoding.h writes
// them.

// Density of the samples in range: sigmas[i] = DensityFromOutput(output, shift), alphas[i] = 1 -
// exp(-sigmas[i] deltas[i]) where alphas is not null, geometry[16 i + j] all outputs where that is
// not null. Where values is not null values[cells[i]] = max(values[cells[i]], sigmas[i] *
// step_length): what an occupancy grid learns; *skip != 0, where skip is not null, leaves values as
// they are. Work: 6.1 kFLOP a sample; 68 bytes read and 40 written in half precision.
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

// Colors [k] of the kept samples k in range: sample k's geometry stands at rows[k], or at k where
// rows is null, its ray's harmonics [n_rays][16] at ray_of[that]. sRGB in [0, 1].
// Work: 14 kFLOP a sample; 84 bytes read and 12 written in half precision.
template <typename T>
struct NgpColorParams {
  DeviceRange range;
  const T* weights = nullptr;
  const uint32_t* rows = nullptr;
  const uint32_t* ray_of = nullptr;
  const T* harmonics = nullptr;
  const T* geometry = nullptr;
  Vec3* colors = nullptr;
};

// Backward pass of both MLPs. The forward activations are computed once more: that is less than to
// store and load 1.1 KB a sample. grads [k][4] as kernels/composite.h writes them; sample k's
// encoding stands at rows[k].
//   grad_encodings[(p * stride + k) * 2 + f] = gradient of its encoding.
//   weight_gradients[b][kNgpMlpWeights] = sum over the samples of block b, for b in
//   [0, n_blocks): whole rows, in an order that never changes. Padding is left alone.
// Gradients beyond the range of T are cut off at its ends.
// Work: 57 kFLOP a sample; 120 bytes read and 128 written in half precision.
template <typename T>
struct NgpBackwardParams {
  DeviceRange range;
  int n_blocks = 0;  // as many as weight_gradients has rows
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
};

void NgpDensity(const NgpDensityParams<float>& params, Stream stream);
void NgpDensity(const NgpDensityParams<Half>& params, Stream stream);
void NgpColor(const NgpColorParams<float>& params, Stream stream);
void NgpColor(const NgpColorParams<Half>& params, Stream stream);
void NgpBackward(const NgpBackwardParams<float>& params, Stream stream);
void NgpBackward(const NgpBackwardParams<Half>& params, Stream stream);

// Shared memory that a block of the backward pass takes.
template <typename T>
size_t NgpBackwardSharedBytes();
template <>
size_t NgpBackwardSharedBytes<float>();
template <>
size_t NgpBackwardSharedBytes<Half>();

// How many blocks a backward pass is quickest with on the device in use.
template <typename T>
int NgpBackwardBlocks();
template <>
int NgpBackwardBlocks<float>();
template <>
int NgpBackwardBlocks<Half>();

}  // namespace nerf::kernels::cuda
