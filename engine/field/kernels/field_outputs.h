#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/half_float.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

// What lies between samples on a device and the layers of a field that is no ngp's. All pointers
// are to device memory. T is Half or float.
namespace nerf::kernels::cuda {

// Where the density of sample i goes: sigmas[i]; alphas[i] = 1 - exp(-sigma deltas[i]), unless
// null;
//   values[cells[i]] = max(values[cells[i]], sigma * step_length), unless values is null or *skip
//   != 0: the update of the occupancy grid.
struct DensityTargets {
  DeviceRange range;
  const float* deltas = nullptr;
  float* sigmas = nullptr;
  float* alphas = nullptr;
  const uint32_t* cells = nullptr;
  float step_length = 0;
  const uint32_t* skip = nullptr;
  float* values = nullptr;
};

// encodings[k] [width]: the point's coordinates, then sin(2^o x) and cos(2^o x) for each octave o
// from 0 on, each of all three coordinates, then zeros. The point of element k is point rows[k] (k
// if rows is null), `stride` bytes from one to the next.
// Source: Mildenhall et al. 2020, eq. 4, without its factor pi, as its authors' code has it.
template <typename T>
struct FrequencyEncodeParams {
  DeviceRange range;
  const uint32_t* rows = nullptr;
  const Vec3* points = nullptr;
  size_t stride = sizeof(Vec3);
  int n_octaves = 0;
  int width = 0;
  T* encodings = nullptr;
};

// Densities max(output 0, 0) * scale. outputs [capacity][kOutputWidth].
inline constexpr int kOutputWidth = 16;
template <typename T>
struct ReluDensityParams {
  DensityTargets to;
  const T* outputs = nullptr;
  float scale = 1;
};

// moved[i] = positions[i] + the first three outputs.
template <typename T>
struct AddShiftParams {
  DeviceRange range;
  const Vec3* positions = nullptr;
  const T* outputs = nullptr;
  Vec3* moved = nullptr;
};

// colors[k] = sigmoid of the first three outputs.
template <typename T>
struct SigmoidColorParams {
  DeviceRange range;
  const T* outputs = nullptr;
  Vec3* colors = nullptr;
};

// From the gradients of kernels/composite.h, by colors before the sigmoid and by an exponent of the
// density, to those by the outputs of both layers, [capacity][kOutputWidth] each. The density of
// kept sample k is sigmas[rows[k]] (k if rows is null) = max(output, 0) * scale.
template <typename T>
struct OutputGradientParams {
  DeviceRange range;
  const uint32_t* rows = nullptr;
  const float* grads = nullptr;  // [capacity][4]
  const float* sigmas = nullptr;
  float scale = 1;
  T* grad_densities = nullptr;
  T* grad_colors = nullptr;
};

void FrequencyEncode(const FrequencyEncodeParams<float>& params, Stream stream);
void FrequencyEncode(const FrequencyEncodeParams<Half>& params, Stream stream);
void ReluDensity(const ReluDensityParams<float>& params, Stream stream);
void ReluDensity(const ReluDensityParams<Half>& params, Stream stream);
void AddShift(const AddShiftParams<float>& params, Stream stream);
void AddShift(const AddShiftParams<Half>& params, Stream stream);
void SigmoidColor(const SigmoidColorParams<float>& params, Stream stream);
void SigmoidColor(const SigmoidColorParams<Half>& params, Stream stream);
void OutputGradient(const OutputGradientParams<float>& params, Stream stream);
void OutputGradient(const OutputGradientParams<Half>& params, Stream stream);

}  // namespace nerf::kernels::cuda
