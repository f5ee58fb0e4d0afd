#include "engine/field/kernels/field_outputs.h"

#include <cmath>

#include "engine/field/kernels/cuda/density_targets.cuh"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

// Calls body(element) for the elements of this thread.
template <typename Body>
__device__ void ForEachElement(const DeviceRange& range, Body body) {
  const Elements elements = ElementsOf(range);
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    body(i);
  }
}

template <typename T>
__device__ T Narrowed(float value) {
  constexpr float kLargestHalf = 65504.0f;
  if constexpr (sizeof(T) == 2) value = fminf(fmaxf(value, -kLargestHalf), kLargestHalf);
  return FromFloat<T>(value);
}

// A thread has one octave of a point, or its coordinates and the zeros.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    FrequencyEncodeKernel(const __grid_constant__ FrequencyEncodeParams<T> p) {
  const Elements elements = ElementsOf(p.range);
  const auto n_parts = static_cast<uint32_t>(p.n_octaves + 1);
  const uint64_t n = uint64_t{elements.size()} * n_parts;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t k = elements.begin + static_cast<uint32_t>(i / n_parts);
    const int part = static_cast<int>(i % n_parts);
    const size_t row = p.rows != nullptr ? p.rows[k] : k;
    const Vec3 point = *reinterpret_cast<const Vec3*>(
        reinterpret_cast<const unsigned char*>(p.points) + row * p.stride);
    T* const encoding = p.encodings + static_cast<size_t>(p.width) * k;
    if (part == 0) {
      for (int axis = 0; axis < 3; ++axis) encoding[axis] = FromFloat<T>(point[axis]);
      for (int c = 3 + 6 * p.n_octaves; c < p.width; ++c) encoding[c] = FromFloat<T>(0.0f);
      continue;
    }
    const float power = static_cast<float>(1u << (part - 1));
    T* const octave = encoding + 3 + 6 * (part - 1);
    for (int axis = 0; axis < 3; ++axis) {
      octave[axis] = FromFloat<T>(std::sin(point[axis] * power));
      octave[3 + axis] = FromFloat<T>(std::cos(point[axis] * power));
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    ReluDensityKernel(const __grid_constant__ ReluDensityParams<T> p) {
  ForEachElement(p.to.range, [&](uint32_t i) {
    const float output = ToFloat(p.outputs[size_t{kOutputWidth} * i]);
    StoreDensity(p.to, i, fmaxf(output, 0.0f) * p.scale);
  });
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    AddShiftKernel(const __grid_constant__ AddShiftParams<T> p) {
  ForEachElement(p.range, [&](uint32_t i) {
    const T* const shift = p.outputs + size_t{kOutputWidth} * i;
    p.moved[i] = p.positions[i] + Vec3{ToFloat(shift[0]), ToFloat(shift[1]), ToFloat(shift[2])};
  });
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    SigmoidColorKernel(const __grid_constant__ SigmoidColorParams<T> p) {
  ForEachElement(p.range, [&](uint32_t k) {
    const T* const outputs = p.outputs + size_t{kOutputWidth} * k;
    Vec3 color;
    for (int channel = 0; channel < 3; ++channel)
      color[channel] = 1 / (1 + expf(-ToFloat(outputs[channel])));
    p.colors[k] = color;
  });
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    OutputGradientKernel(const __grid_constant__ OutputGradientParams<T> p) {
  ForEachElement(p.range, [&](uint32_t k) {
    const float* const grads = p.grads + 4 * size_t{k};
    const float sigma = p.sigmas[p.rows != nullptr ? p.rows[k] : k];
    T* const density = p.grad_densities + size_t{kOutputWidth} * k;
    T* const color = p.grad_colors + size_t{kOutputWidth} * k;
    for (int c = 0; c < kOutputWidth; ++c) {
      color[c] = Narrowed<T>(c < 3 ? grads[c] : 0.0f);
      density[c] = FromFloat<T>(0.0f);
    }
    // The gradient by sigma is that by its exponent over sigma.
    if (sigma > 0) density[0] = Narrowed<T>(grads[3] / sigma * p.scale);
  });
}

template <typename Params>
void LaunchElements(const char* name, void (*kernel)(Params), const Params& params, uint64_t n,
                    Stream stream) {
  LaunchOver(name, kernel, n, kBlock, stream, params);
}

template <typename T>
void LaunchEncode(const FrequencyEncodeParams<T>& params, Stream stream) {
  LaunchElements("frequency_encode", FrequencyEncodeKernel<T>, params,
                 uint64_t{params.range.capacity} * (params.n_octaves + 1), stream);
}

}  // namespace

void FrequencyEncode(const FrequencyEncodeParams<float>& params, Stream stream) {
  LaunchEncode(params, stream);
}
void FrequencyEncode(const FrequencyEncodeParams<Half>& params, Stream stream) {
  LaunchEncode(params, stream);
}
void ReluDensity(const ReluDensityParams<float>& params, Stream stream) {
  LaunchElements("relu_density", ReluDensityKernel<float>, params, params.to.range.capacity,
                 stream);
}
void ReluDensity(const ReluDensityParams<Half>& params, Stream stream) {
  LaunchElements("relu_density", ReluDensityKernel<Half>, params, params.to.range.capacity, stream);
}
void AddShift(const AddShiftParams<float>& params, Stream stream) {
  LaunchElements("add_shift", AddShiftKernel<float>, params, params.range.capacity, stream);
}
void AddShift(const AddShiftParams<Half>& params, Stream stream) {
  LaunchElements("add_shift", AddShiftKernel<Half>, params, params.range.capacity, stream);
}
void SigmoidColor(const SigmoidColorParams<float>& params, Stream stream) {
  LaunchElements("sigmoid_color", SigmoidColorKernel<float>, params, params.range.capacity, stream);
}
void SigmoidColor(const SigmoidColorParams<Half>& params, Stream stream) {
  LaunchElements("sigmoid_color", SigmoidColorKernel<Half>, params, params.range.capacity, stream);
}
void OutputGradient(const OutputGradientParams<float>& params, Stream stream) {
  LaunchElements("output_gradient", OutputGradientKernel<float>, params, params.range.capacity,
                 stream);
}
void OutputGradient(const OutputGradientParams<Half>& params, Stream stream) {
  LaunchElements("output_gradient", OutputGradientKernel<Half>, params, params.range.capacity,
                 stream);
}

}  // namespace nerf::kernels::cuda
