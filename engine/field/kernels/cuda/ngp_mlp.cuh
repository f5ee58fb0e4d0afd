#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/layouts/ngp_layers.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/cuda/fixed_point.cuh"
#include "engine/field/kernels/cuda/mlp_layers.cuh"
#include "engine/field/kernels/ngp_mlp.h"

namespace nerf::kernels::cuda {
namespace {

constexpr int kGeometry = 16, kHarmonics = 16;

// Offset of a layer in shared memory if layer `first` is the first one there.
constexpr int SharedOffset(int first, int layer) {
  int offset = 0;
  for (int l = first; l < layer; ++l) offset += kNgpLayers[l].n_in * (kNgpLayers[l].n_out + kPad);
  return offset;
}
constexpr int SharedStride(int layer) { return kNgpLayers[layer].n_out + kPad; }

constexpr int kStride0 = SharedStride(0), kStride1 = SharedStride(1), kStride2 = SharedStride(2),
              kStride3 = SharedStride(3), kStride4 = SharedStride(4);
// Offsets with all layers in shared memory.
constexpr int kLayer0 = SharedOffset(0, 0), kLayer1 = SharedOffset(0, 1),
              kLayer2 = SharedOffset(0, 2), kLayer3 = SharedOffset(0, 3),
              kLayer4 = SharedOffset(0, 4), kLayersEnd = SharedOffset(0, kNgpLayerCount);

// Copies layers [first, end) to shared memory (CopyLayer).
template <int first, int end, int layer = first, typename T>
__device__ void CopyWeights(const T* weights, T* shared) {
  CopyLayer<kNgpLayers[layer].n_in, kNgpLayers[layer].n_out>(weights + kNgpLayers[layer].offset,
                                                             shared + SharedOffset(first, layer));
  if constexpr (layer + 1 < end) CopyWeights<first, end, layer + 1>(weights, shared);
}

// The 32 features of 16 samples from planes of two.
template <typename T>
__device__ Activations<T, 32> LoadEncodings(const T* encodings, uint32_t stride,
                                            const uint32_t (&rows)[2]) {
  const Lane lane;
  const auto* const pairs = reinterpret_cast<const Pair<T>*>(encodings);
  Activations<T, 32> result;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int plane = 8 * part + 4 * (i / 2) + lane.q;
      const uint32_t row = rows[i % 2];
      result.parts[part].r[i] = row == kNoRow ? Pair<T>{} : pairs[size_t{stride} * plane + row];
    }
  }
  return result;
}

// Adds to the sums of the color MLP's first layer what the samples' rays do.
__device__ inline void AddTerms(const NgpRayTerms& terms, const uint32_t (&rays)[2],
                                Sums<64>* sums) {
  const int column = 2 * Lane().q;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (rays[i] == kNoRow) continue;
    const size_t row = terms.of == nullptr ? 0 : static_cast<size_t>(terms.of[rays[i]]);
    const float* const from = terms.terms + 64 * row + column;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      sums->parts[n].r[2 * i] += from[8 * n];
      sums->parts[n].r[2 * i + 1] += from[8 * n + 1];
    }
  }
}

// ---- density

template <typename T>
__global__ void __launch_bounds__(kMlpBlock)
    NgpDensityKernel(const __grid_constant__ NgpDensityParams<T> p) {
  if (!HasRows(p.range)) return;
  T* const weights = SharedMemory<T>();
  CopyWeights<0, 2>(p.weights, weights);
  __syncthreads();
  float* const values = p.skip != nullptr && *p.skip != 0 ? nullptr : p.values;
  ForEachWarpRows(p.range, [&](Lane lane, const uint32_t(&rows)[2]) {
    const auto encodings = LoadEncodings(p.encodings, p.stride, rows);
    Reconverge();
    const auto hidden = Relu<T>(Forward<32, 64>(encodings, weights, kStride0));
    const auto outputs = Forward<64, kGeometry>(hidden, weights + kLayer1, kStride1);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t row = rows[i];
      if (row == kNoRow) continue;
      if (p.geometry != nullptr) {
        auto* const geometry = reinterpret_cast<Pair<T>*>(p.geometry + size_t{kGeometry} * row);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const FragmentC& c = outputs.parts[n];
          geometry[4 * n + lane.q] = {FromFloat<T>(c.r[2 * i]), FromFloat<T>(c.r[2 * i + 1])};
        }
      }
      if (lane.q != 0) continue;
      const float sigma = DensityFromOutput(outputs.parts[0].r[2 * i], p.shift);
      p.sigmas[row] = sigma;
      if (p.alphas != nullptr) p.alphas[row] = AlphaFromDensity(sigma, p.deltas[row]);
      if (values != nullptr) {
        // Values are not negative, so their bits compare as they do. Most samples change nothing.
        float* const value = values + p.cells[row];
        const float seen = sigma * p.step_length;
        if (seen > *value) {
          atomicMax(reinterpret_cast<unsigned*>(value), __float_as_uint(seen));
        }
      }
    }
  });
}

// ---- color

template <typename T, bool kTerms>
__global__ void __launch_bounds__(kMlpBlock)
    NgpColorKernel(const __grid_constant__ NgpColorParams<T> p) {
  if (!HasRows(p.range)) return;
  T* const weights = SharedMemory<T>();
  CopyWeights<2, 5>(p.weights, weights);
  __syncthreads();
  ForEachWarpRows(p.range, [&](Lane lane, const uint32_t(&kept)[2]) {
    uint32_t rows[2], rays[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows[i] = kept[i] != kNoRow && p.rows != nullptr ? p.rows[kept[i]] : kept[i];
      rays[i] = rows[i] != kNoRow ? p.ray_of[rows[i]] : kNoRow;
    }
    const Activations<T, 32> inputs = {
        {LoadSixteen(p.harmonics, rays), LoadSixteen(p.geometry, rows)}};
    Reconverge();
    auto sums0 = Forward<32, 64>(inputs, weights, kStride2);
    if constexpr (kTerms) {
      AddTerms(p.terms, rays, &sums0);
      Reconverge();
    }
    const auto hidden0 = Relu<T>(sums0);
    const auto hidden1 = Relu<T>(Forward<64, 64>(hidden0, weights + kLayer3 - kLayer2, kStride3));
    const auto outputs = Forward<64, 8>(hidden1, weights + kLayer4 - kLayer2, kStride4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (kept[i] == kNoRow || lane.q > 1) continue;
      const auto sigmoid = [](float x) { return 1 / (1 + expf(-x)); };
      Vec3& color = p.colors[kept[i]];
      const FragmentC& c = outputs.parts[0];
      if (lane.q == 0) {
        color.x = sigmoid(c.r[2 * i]);
        color.y = sigmoid(c.r[2 * i + 1]);
      } else {
        color.z = sigmoid(c.r[2 * i]);
      }
    }
  });
}

// ---- backward

template <typename T>
constexpr size_t BackwardSharedBytes() {
  return sizeof(T) * (kLayersEnd + 2 * kBlockRows * kStagedStride);
}

// The kept samples of this lane's rows g and g + 8: their indices, array rows and rays, kNoRow
// beyond the end.
struct KeptRows {
  uint32_t kept[2], rows[2], rays[2];

  template <typename T>
  __device__ KeptRows(const NgpBackwardParams<T>& p, const Elements& elements, uint32_t first) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t k = first + Lane().g + 8 * i;
      kept[i] = k < elements.end ? k : kNoRow;
      rows[i] = kept[i] != kNoRow ? p.rows[k] : kNoRow;
      rays[i] = kept[i] != kNoRow ? p.ray_of[rows[i]] : kNoRow;
    }
  }
};

// Gradients by the color outputs; those by the density's exponents go to grad_exponents. Lane q = 0
// holds red and green of its rows, q = 1 blue. Rows beyond the end have zero gradients and so add
// nothing.
template <typename T>
__device__ Activations<T, 16> LoadOutputGradients(const NgpBackwardParams<T>& p, const KeptRows& at,
                                                  float (&grad_exponents)[2]) {
  const Lane lane;
  Activations<T, 16> grad_outputs = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (at.kept[i] == kNoRow) continue;
    const float* const grad = p.grads + 4 * size_t{at.kept[i]};
    if (lane.q == 0) {
      grad_outputs.parts[0].r[i] = {Gradient<T>(grad[0]), Gradient<T>(grad[1])};
      grad_exponents[i] = grad[3];
    } else if (lane.q == 1) {
      grad_outputs.parts[0].r[i].x = Gradient<T>(grad[2]);
    }
  }
  return grad_outputs;
}

template <typename T>
__device__ void StoreEncodingGradients(const NgpBackwardParams<T>& p, const KeptRows& at,
                                       const Sums<32>& grad_encodings) {
  const Lane lane;
  auto* const pairs = reinterpret_cast<Pair<float>*>(p.grad_encodings);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (at.kept[i] == kNoRow) continue;
      const FragmentC& c = grad_encodings.parts[n];
      pairs[size_t{p.grad_stride} * (4 * n + lane.q) + at.kept[i]] = {c.r[2 * i], c.r[2 * i + 1]};
    }
  }
}

// Adds the gradients of the color MLP's first layer, staged for the block's samples, to those of
// the terms of their rays. A thread has one column of some rows, in order: samples of a ray, and
// often rays of a term, lie together.
template <typename T>
__device__ void AddTermGradients(const NgpBackwardParams<T>& p, const Elements& elements,
                                 uint32_t block_first, const T* staged_grads) {
  constexpr int kColumns = 64, kRowsEach = kBlockRows / (kMlpBlock / kColumns);
  const uint32_t column = threadIdx.x % kColumns, first = threadIdx.x / kColumns * kRowsEach;
  float sum = 0;
  int64_t* at = nullptr;
  for (uint32_t row = first; row < first + kRowsEach; ++row) {
    const uint32_t k = block_first + row;
    if (k >= elements.end) break;
    int64_t* const next =
        p.grad_terms + kColumns * static_cast<size_t>(p.terms.of[p.ray_of[p.rows[k]]]) + column;
    if (next != at) {
      if (at != nullptr) AddFixed(at, sum);
      at = next;
      sum = 0;
    }
    sum += ToFloat(staged_grads[row * kStagedStride + column]);
  }
  if (at != nullptr) AddFixed(at, sum);
}

template <typename T, bool kTerms>
__global__ void __launch_bounds__(kMlpBlock)
    NgpBackwardKernel(const __grid_constant__ NgpBackwardParams<T> p) {
  T* const weights = SharedMemory<T>();
  T* const staged_inputs = weights + kLayersEnd;
  T* const staged_grads = staged_inputs + kBlockRows * kStagedStride;
  if (HasRows(p.range)) CopyWeights<0, 5>(p.weights, weights);
  __syncthreads();

  WeightGradients<32, 64> sums0;
  WeightGradients<64, 16> sums1;
  WeightGradients<32, 64> sums2;
  WeightGradients<64, 64> sums3;
  WeightGradients<64, 8> sums4;  // the columns from the eighth on are padding

  const Lane lane;
  const int warp = threadIdx.x / kWarp;
  T* const own_inputs = staged_inputs + warp * kWarpRows * kStagedStride;
  T* const own_grads = staged_grads + warp * kWarpRows * kStagedStride;
  const auto add = [&](auto* sums, const auto& inputs, const auto& grads) {
    __syncthreads();  // until the previous layer's rows have been read
    Stage(inputs, own_inputs);
    Stage(grads, own_grads);
    __syncthreads();
    sums->Add(staged_inputs, staged_grads);
  };

  const Elements elements = ElementsOf(p.range);
  for (uint32_t block_first = elements.begin + blockIdx.x * kBlockRows; block_first < elements.end;
       block_first += gridDim.x * kBlockRows) {
    const KeptRows at(p, elements, block_first + warp * kWarpRows);
    // Recompute the forward pass.
    const auto encodings = LoadEncodings(p.encodings, p.stride, at.rows);
    const FragmentA<T> harmonics = LoadSixteen(p.harmonics, at.rays);
    Reconverge();
    const auto hidden = Relu<T>(Forward<32, 64>(encodings, weights + kLayer0, kStride0));
    const auto geometry = Linear<T>(Forward<64, kGeometry>(hidden, weights + kLayer1, kStride1));
    const Activations<T, 32> inputs = {{harmonics, geometry.parts[0]}};
    auto sums_of_hidden0 = Forward<32, 64>(inputs, weights + kLayer2, kStride2);
    if constexpr (kTerms) {
      AddTerms(p.terms, at.rays, &sums_of_hidden0);
      Reconverge();
    }
    const auto hidden0 = Relu<T>(sums_of_hidden0);
    const auto hidden1 = Relu<T>(Forward<64, 64>(hidden0, weights + kLayer3, kStride3));

    float grad_exponents[2] = {0, 0};
    const Activations<T, 16> grad_outputs = LoadOutputGradients(p, at, grad_exponents);
    Reconverge();
    const auto grad_hidden1 =
        ReluBackward(Backward<64, 16>(grad_outputs, weights + kLayer4, kStride4, 0), hidden1);
    add(&sums4, hidden1, grad_outputs);
    const auto grad_hidden0 =
        ReluBackward(Backward<64, 64>(grad_hidden1, weights + kLayer3, kStride3, 0), hidden0);
    add(&sums3, hidden0, grad_hidden1);
    // The harmonics need no gradient.
    auto geometry_sums =
        Backward<kGeometry, 64>(grad_hidden0, weights + kLayer2, kStride2, kHarmonics);
    if (lane.q == 0) {
      geometry_sums.parts[0].r[0] += grad_exponents[0];
      geometry_sums.parts[0].r[2] += grad_exponents[1];
    }
    add(&sums2, inputs, grad_hidden0);
    if constexpr (kTerms) {
      AddTermGradients(p, elements, block_first, staged_grads);
      Reconverge();
    }
    const auto grad_geometry =
        ToActivations<T>(geometry_sums, [](float x, int, int) { return Gradient<T>(x); });
    const auto grad_hidden = ReluBackward(
        Backward<64, kGeometry>(grad_geometry, weights + kLayer1, kStride1, 0), hidden);
    add(&sums1, hidden, grad_geometry);
    const auto grad_encodings = Backward<32, 64>(grad_hidden, weights + kLayer0, kStride0, 0);
    add(&sums0, encodings, grad_hidden);

    StoreEncodingGradients(p, at, grad_encodings);
  }
  float* const own = p.weight_gradients + size_t{kNgpWeights} * blockIdx.x;
  sums0.Store(own + kNgpLayers[0].offset);
  sums1.Store(own + kNgpLayers[1].offset);
  sums2.Store(own + kNgpLayers[2].offset);
  sums3.Store(own + kNgpLayers[3].offset);
  sums4.Store<kNgpLayers[4].n_out>(own + kNgpLayers[4].offset);
}

constexpr size_t kColorShared = kLayersEnd - kLayer2;  // elements

}  // namespace

// With terms. They are in a file of their own, so that a compiler inlines the kernels without them
// as if there were no others.
void NgpColorWithTerms(const NgpColorParams<float>& params, Stream stream);
void NgpColorWithTerms(const NgpColorParams<Half>& params, Stream stream);
void NgpBackwardWithTerms(const NgpBackwardParams<float>& params, Stream stream);
void NgpBackwardWithTerms(const NgpBackwardParams<Half>& params, Stream stream);

}  // namespace nerf::kernels::cuda
