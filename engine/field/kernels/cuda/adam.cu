#include "engine/field/kernels/adam.h"

#include <cmath>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/launch.cuh"
#include "engine/field/kernels/hash_encoding.h"

namespace nerf::kernels::cuda {
namespace {

constexpr int kVector = 4;  // elements that a thread loads and stores at once

template <typename T>
struct alignas(kVector * sizeof(T)) Vector {
  T at[kVector];
};
// 32 bytes: two loads of 16.
template <>
struct alignas(16) Vector<int64_t> {
  int64_t at[kVector];
};

__device__ inline void Update(const AdamSettings& s, float gradient, float* parameter, float* first,
                              float* second) {
  *first = s.beta1 * *first + (1 - s.beta1) * gradient;
  *second = s.beta2 * *second + (1 - s.beta2) * (gradient * gradient);
  const float root = sqrtf(*second * s.correction2) + s.epsilon;
  *parameter -= s.learning_rate * s.correction1 * *first / root;
}

__device__ inline float GradientToFloat(float gradient) { return gradient; }
__device__ inline float GradientToFloat(int64_t gradient) {
  return static_cast<float>(static_cast<double>(gradient) * (1.0 / kFixedPointOne));
}

template <typename Gradient>
struct SparseArguments {
  const AdamStepSettings* settings;
  const uint32_t* skip;
  int64_t n_vectors;
  Vector<Gradient>* gradients;
  Vector<float>* parameters;
  Vector<float>* first_moments;
  Vector<float>* second_moments;
  Vector<Half>* half_copies;
};

template <typename Gradient>
__global__ void __launch_bounds__(kBlock) AdamSparseKernel(SparseArguments<Gradient> p) {
  const AdamStepSettings settings = *p.settings;
  const bool skip = p.skip != nullptr && *p.skip != 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.n_vectors; i += stride) {
    const Vector<Gradient> gradients = p.gradients[i];
    bool has_gradient = false;
#pragma unroll
    for (int j = 0; j < kVector; ++j) has_gradient |= gradients.at[j] != 0;
    if (!has_gradient) continue;
    p.gradients[i] = {};
    if (skip) continue;
    Vector<float> parameters = p.parameters[i], first = p.first_moments[i],
                  second = p.second_moments[i];
    Vector<Half> copies;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (gradients.at[j] != 0) {
        Update(settings.adam, GradientToFloat(gradients.at[j]) * settings.gradient_factor,
               &parameters.at[j], &first.at[j], &second.at[j]);
      }
      copies.at[j] = FromFloat<Half>(parameters.at[j]);
    }
    p.parameters[i] = parameters;
    p.first_moments[i] = first;
    p.second_moments[i] = second;
    if (p.half_copies != nullptr) p.half_copies[i] = copies;
  }
}

template <typename Gradient>
void LaunchSparse(const AdamSparseParams& params, Gradient* gradients, Stream stream) {
  LaunchOver("adam_sparse", AdamSparseKernel<Gradient>, params.n / kVector, kBlock, stream,
             SparseArguments<Gradient>{params.settings, params.skip, params.n / kVector,
                                       reinterpret_cast<Vector<Gradient>*>(gradients),
                                       reinterpret_cast<Vector<float>*>(params.parameters),
                                       reinterpret_cast<Vector<float>*>(params.first_moments),
                                       reinterpret_cast<Vector<float>*>(params.second_moments),
                                       reinterpret_cast<Vector<Half>*>(params.half_copies)});
}

__global__ void __launch_bounds__(kBlock) AdamDenseKernel(AdamDenseParams p) {
  if (p.skip != nullptr && *p.skip != 0) return;
  const AdamStepSettings settings = *p.settings;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.n; i += stride) {
    float gradient = 0;
#pragma unroll 8
    for (int part = 0; part < p.n_parts; ++part) gradient += p.gradients[part * p.n + i];
    float parameter = p.parameters[i], first = p.first_moments[i], second = p.second_moments[i];
    Update(settings.adam, gradient * settings.gradient_factor + settings.adam.l2 * parameter,
           &parameter, &first, &second);
    p.parameters[i] = parameter;
    p.first_moments[i] = first;
    p.second_moments[i] = second;
    if (p.half_copies != nullptr) p.half_copies[i] = FromFloat<Half>(parameter);
    // Threads may race here, but all of them write 1.
    if (p.not_finite != nullptr && !std::isfinite(parameter)) *p.not_finite = 1;
  }
}

__global__ void __launch_bounds__(kBlock) MovingAverageKernel(MovingAverageParams p) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.n; i += stride)
    p.averages[i] = p.decay * p.averages[i] + (1 - p.decay) * p.parameters[i];
}

}  // namespace

void AdamSparse(const AdamSparseParams& params, Stream stream) {
  NERF_CHECK(params.n % kVector == 0);
  if (params.fixed_gradients != nullptr) {
    LaunchSparse(params, params.fixed_gradients, stream);
  } else {
    LaunchSparse(params, params.gradients, stream);
  }
}

void AdamDense(const AdamDenseParams& params, Stream stream) {
  // There are few parameters, each with many parts: small blocks use more multiprocessors.
  LaunchOver("adam_dense", AdamDenseKernel, params.n, 64, stream, params);
}

void MovingAverage(const MovingAverageParams& params, Stream stream) {
  LaunchOver("moving_average", MovingAverageKernel, params.n, kBlock, stream, params);
}

}  // namespace nerf::kernels::cuda
