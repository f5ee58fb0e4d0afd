#include "engine/field/kernels/point_warp.h"

#include "engine/base/probe_time.h"
#include "engine/field/kernels/cuda/mlp_layers.cuh"

namespace nerf::kernels::cuda {
namespace {

constexpr int kInputs = kPlaceWidth + kTimeWidth, kHidden = kWarpHiddenWidth;
constexpr int kStrideOfHidden = kHidden + kPad, kStrideOfOutput = kWarpOutputWidth + kPad;
// Offsets of the second and third layer in shared memory.
constexpr int kSecond = kInputs * kStrideOfHidden;
constexpr int kThird = kSecond + kHidden * kStrideOfHidden;
constexpr int kWarpEnd = kThird + kHidden * kStrideOfOutput;

template <typename T>
__device__ void CopyWarpWeights(const T* weights, T* shared) {
  CopyLayer<kInputs, kHidden>(weights + kWarpLayers[0].offset, shared);
  CopyLayer<kHidden, kHidden>(weights + kWarpLayers[1].offset, shared + kSecond);
  CopyLayer<kHidden, kWarpOutputWidth>(weights + kWarpLayers[2].offset, shared + kThird);
}

__device__ float TimeOf(const PointTimes& times, uint32_t row, Vec3 unit) {
  if (times.times == nullptr)
    return times.first + (times.last - times.first) * ProbeTime(times.seed, unit);
  return times.times[times.ray_of == nullptr ? 0 : times.views[times.ray_of[row]]];
}

// The inputs of the samples of this lane's rows, zeros where there is none.
template <typename T>
__device__ Activations<T, kInputs> LoadInputs(const PointTimes& times, const Vec3* points,
                                              const uint32_t (&rows)[2]) {
  const Lane lane;
  Activations<T, kInputs> inputs = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (rows[i] == kNoRow) continue;
    const Vec3 unit = points[rows[i]];
    const float time = TimeOf(times, rows[i], unit);
#pragma unroll
    for (int part = 0; part < kInputs / 16; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = 16 * part + 8 * half + 2 * lane.q;
        const auto feature = [&](int c) {
          return c < kPlaceWidth ? PlaceFeature(unit, c) : TimeFeature(time, c - kPlaceWidth);
        };
        inputs.parts[part].r[2 * half + i] = {FromFloat<T>(feature(column)),
                                              FromFloat<T>(feature(column + 1))};
      }
    }
  }
  return inputs;
}

// One coordinate of a moved point.
__device__ float Held(float coordinate) { return fminf(fmaxf(coordinate, 0.0f), 1.0f); }

template <typename T>
__global__ void __launch_bounds__(kMlpBlock)
    PointWarpKernel(const __grid_constant__ PointWarpParams<T> p) {
  if (!HasRows(p.range)) return;
  T* const weights = SharedMemory<T>();
  CopyWarpWeights(p.weights, weights);
  __syncthreads();
  ForEachWarpRows(p.range, [&](Lane lane, const uint32_t(&rows)[2]) {
    const auto inputs = LoadInputs<T>(p.times, p.unit, rows);
    Reconverge();
    const auto hidden0 = Relu<T>(Forward<kInputs, kHidden>(inputs, weights, kStrideOfHidden));
    const auto hidden1 =
        Relu<T>(Forward<kHidden, kHidden>(hidden0, weights + kSecond, kStrideOfHidden));
    // The columns from the eighth on are padding.
    const auto shifts = Forward<kHidden, 8>(hidden1, weights + kThird, kStrideOfOutput);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (rows[i] == kNoRow || lane.q > 1) continue;
      const Vec3& unit = p.unit[rows[i]];
      Vec3& warped = p.warped[rows[i]];
      const FragmentC& shift = shifts.parts[0];
      if (lane.q == 0) {
        warped.x = Held(unit.x + shift.r[2 * i]);
        warped.y = Held(unit.y + shift.r[2 * i + 1]);
      } else {
        warped.z = Held(unit.z + shift.r[2 * i]);
      }
    }
  });
}

// Gradients by the shifts: lane q = 0 holds x and y of its rows, q = 1 z.
template <typename T>
__device__ Activations<T, kWarpOutputWidth> LoadShiftGradients(const PointWarpBackwardParams<T>& p,
                                                               const uint32_t (&kept)[2],
                                                               const uint32_t (&rows)[2]) {
  const Lane lane;
  Activations<T, kWarpOutputWidth> gradients = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (kept[i] == kNoRow || lane.q > 1) continue;
    const Vec3 gradient = p.grad_warped[kept[i]], warped = p.warped[rows[i]];
    const auto counted = [](float coordinate, float value) {
      return Gradient<T>(coordinate > 0 && coordinate < 1 ? value : 0.0f);
    };
    if (lane.q == 0)
      gradients.parts[0].r[i] = {counted(warped.x, gradient.x), counted(warped.y, gradient.y)};
    else
      gradients.parts[0].r[i].x = counted(warped.z, gradient.z);
  }
  return gradients;
}

template <typename T>
__global__ void __launch_bounds__(kMlpBlock)
    PointWarpBackwardKernel(const __grid_constant__ PointWarpBackwardParams<T> p) {
  T* const weights = SharedMemory<T>();
  T* const staged_inputs = weights + kWarpEnd;
  T* const staged_grads = staged_inputs + kBlockRows * kStagedStride;
  if (HasRows(p.range)) CopyWarpWeights(p.weights, weights);
  __syncthreads();

  WeightGradients<kPlaceWidth, kHidden> sums_of_place;
  WeightGradients<kTimeWidth, kHidden> sums_of_time;
  WeightGradients<kHidden, kHidden> sums1;
  WeightGradients<kHidden, 8> sums2;

  const Lane lane;
  const int warp = threadIdx.x / kWarp;
  T* const own_inputs = staged_inputs + warp * kWarpRows * kStagedStride;
  T* const own_grads = staged_grads + warp * kWarpRows * kStagedStride;
  const auto stage = [&](const auto& inputs, const auto& grads) {
    __syncthreads();  // until the previous layer's rows have been read
    Stage(inputs, own_inputs);
    Stage(grads, own_grads);
    __syncthreads();
  };

  const Elements elements = ElementsOf(p.range);
  for (uint32_t block_first = elements.begin + blockIdx.x * kBlockRows; block_first < elements.end;
       block_first += gridDim.x * kBlockRows) {
    uint32_t kept[2], rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t k = block_first + warp * kWarpRows + lane.g + 8 * i;
      kept[i] = k < elements.end ? k : kNoRow;
      rows[i] = kept[i] != kNoRow ? p.rows[k] : kNoRow;
    }
    const auto inputs = LoadInputs<T>(p.times, p.unit, rows);
    Reconverge();
    const auto hidden0 = Relu<T>(Forward<kInputs, kHidden>(inputs, weights, kStrideOfHidden));
    const auto hidden1 =
        Relu<T>(Forward<kHidden, kHidden>(hidden0, weights + kSecond, kStrideOfHidden));
    const auto grad_shifts = LoadShiftGradients(p, kept, rows);
    Reconverge();
    const auto grad_hidden1 = ReluBackward(
        Backward<kHidden, kWarpOutputWidth>(grad_shifts, weights + kThird, kStrideOfOutput, 0),
        hidden1);
    stage(hidden1, grad_shifts);
    sums2.Add(staged_inputs, staged_grads);
    const auto grad_hidden0 = ReluBackward(
        Backward<kHidden, kHidden>(grad_hidden1, weights + kSecond, kStrideOfHidden, 0), hidden0);
    stage(hidden0, grad_hidden1);
    sums1.Add(staged_inputs, staged_grads);
    stage(inputs, grad_hidden0);
    sums_of_place.Add(staged_inputs, staged_grads);
    sums_of_time.Add(staged_inputs + kPlaceWidth, staged_grads);
  }
  float* const own = p.weight_gradients + size_t{kWarpWeights} * blockIdx.x;
  sums_of_place.Store(own + kWarpLayers[0].offset);
  sums_of_time.Store(own + kWarpLayers[0].offset + kPlaceWidth * kHidden);
  sums1.Store(own + kWarpLayers[1].offset);
  sums2.template Store<kWarpOutputWidth>(own + kWarpLayers[2].offset);
}

template <typename T>
void LaunchPointWarp(const PointWarpParams<T>& params, Stream stream) {
  LaunchMlp("point_warp", PointWarpKernel<T>, params, kWarpEnd * sizeof(T), stream);
}

template <typename T>
constexpr size_t WarpBackwardShared() {
  return sizeof(T) * (kWarpEnd + 2 * kBlockRows * kStagedStride);
}

// Not limited to the blocks that have samples: every block writes its row of sums.
template <typename T>
void LaunchPointWarpBackward(const PointWarpBackwardParams<T>& params, Stream stream) {
  Launch("point_warp_backward", PointWarpBackwardKernel<T>, params.n_blocks, kMlpBlock,
         WarpBackwardShared<T>(), stream, params);
}

template <typename T>
int ResidentWarpBlocks() {
  return ResidentBlocks(PointWarpBackwardKernel<T>, kMlpBlock, WarpBackwardShared<T>());
}

}  // namespace

void PointWarp(const PointWarpParams<float>& params, Stream stream) {
  LaunchPointWarp(params, stream);
}
void PointWarp(const PointWarpParams<Half>& params, Stream stream) {
  LaunchPointWarp(params, stream);
}
void PointWarpBackward(const PointWarpBackwardParams<float>& params, Stream stream) {
  LaunchPointWarpBackward(params, stream);
}
void PointWarpBackward(const PointWarpBackwardParams<Half>& params, Stream stream) {
  LaunchPointWarpBackward(params, stream);
}

template <>
int PointWarpBackwardBlocks<float>() {
  return ResidentWarpBlocks<float>();
}
template <>
int PointWarpBackwardBlocks<Half>() {
  return ResidentWarpBlocks<Half>();
}

}  // namespace nerf::kernels::cuda
