#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/ngp_layers.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/cuda/device_intrinsics.cuh"
#include "engine/kernels/cuda/device_range.cuh"
#include "engine/kernels/cuda/fixed_point.cuh"
#include "engine/kernels/cuda/launch.cuh"
#include "engine/kernels/ngp_mlp.h"

// A warp processes 16 samples, a block 128. Weights are in shared memory, row-major, with rows
// padded so that loads of fragments have no bank conflicts. The forward pass and, transposed, the
// backward pass read the same copy. In the forward pass activations stay in registers, because the
// sums of a layer have the layout of the next layer's input. Weight gradients are sums over
// samples: a block passes a layer's inputs and gradients through shared memory, and each warp owns
// some tiles of the sums, which it keeps in registers until the end of the kernel.
namespace nerf::kernels::cuda {
namespace {

constexpr int kMlpWarps = 8;
constexpr int kMlpBlock = kMlpWarps * kWarp;
constexpr int kWarpRows = 16;
constexpr int kBlockRows = kMlpWarps * kWarpRows;
constexpr int kPad = 8;  // padding elements per row in shared memory
constexpr int kGeometry = 16, kHarmonics = 16;
constexpr int kStagedStride = 64 + kPad;  // row of a staged array: the widest layer

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

struct alignas(16) Chunk {
  uint32_t words[4];
};

// Copies layers [first, end) to shared memory. Called by the whole block, which needs a barrier
// before it reads them.
template <int first, int end, int layer = first, typename T>
__device__ void CopyWeights(const T* weights, T* shared) {
  constexpr int kIn = kNgpLayers[layer].n_in, kOut = kNgpLayers[layer].n_out;
  constexpr int kFrom = kNgpLayers[layer].offset;
  constexpr int kOffset = SharedOffset(first, layer), kStride = SharedStride(layer);
  constexpr int kChunk = sizeof(Chunk) / sizeof(T), kRowChunks = kOut / kChunk;
  for (int i = threadIdx.x; i < kIn * kRowChunks; i += kMlpBlock) {
    const int row = i / kRowChunks, column = i % kRowChunks * kChunk;
    *reinterpret_cast<Chunk*>(shared + kOffset + row * kStride + column) =
        *reinterpret_cast<const Chunk*>(weights + kFrom + row * kOut + column);
  }
  if constexpr (layer + 1 < end) CopyWeights<first, end, layer + 1>(weights, shared);
}

// The part of a fragment that this lane holds: rows g and g + 8, columns 2q and 2q + 1.
struct Lane {
  int g, q;
  __device__ Lane() : g(threadIdx.x % kWarp / 4), q(threadIdx.x % 4) {}
};

// 16 rows by `width` columns, as the left factor of a product.
template <typename T, int width>
struct Activations {
  FragmentA<T> parts[width / 16];
};

// 16 rows by `width` columns of sums.
template <int width>
struct Sums {
  FragmentC parts[width / 8];
};

// sums = inputs * weights, for n_out columns of a layer's weights.
template <int n_in, int n_out, typename T>
__device__ Sums<n_out> Forward(const Activations<T, n_in>& inputs, const T* weights, int stride) {
  Sums<n_out> sums;
#pragma unroll
  for (int n = 0; n < n_out / 8; ++n) {
#pragma unroll
    for (int k = 0; k < n_in / 16; ++k)
      MultiplyAdd(inputs.parts[k], LoadB(weights + 16 * k * stride + 8 * n, stride),
                  &sums.parts[n]);
  }
  return sums;
}

// Gradient of the n_in inputs of a layer from first_input on, from that of its outputs.
template <int n_in, int n_out, typename T>
__device__ Sums<n_in> Backward(const Activations<T, n_out>& grad_outputs, const T* weights,
                               int stride, int first_input) {
  Sums<n_in> sums;
#pragma unroll
  for (int n = 0; n < n_in / 8; ++n) {
#pragma unroll
    for (int k = 0; k < n_out / 16; ++k)
      MultiplyAdd(grad_outputs.parts[k],
                  LoadTransposedB(weights + (first_input + 8 * n) * stride + 16 * k, stride),
                  &sums.parts[n]);
  }
  return sums;
}

// The next product's left factor: convert(value, n, i) of each sum, element i of part n.
template <typename T, int width, typename Convert>
__device__ Activations<T, width> ToActivations(const Sums<width>& sums, Convert convert) {
  Activations<T, width> result;
#pragma unroll
  for (int part = 0; part < width / 16; ++part) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = 2 * part + half;
      const float(&r)[4] = sums.parts[n].r;
      result.parts[part].r[2 * half] = {convert(r[0], n, 0), convert(r[1], n, 1)};
      result.parts[part].r[2 * half + 1] = {convert(r[2], n, 2), convert(r[3], n, 3)};
    }
  }
  return result;
}

template <typename T, int width>
__device__ Activations<T, width> Linear(const Sums<width>& sums) {
  return ToActivations<T>(sums, [](float x, int, int) { return FromFloat<T>(x); });
}
template <typename T, int width>
__device__ Activations<T, width> Relu(const Sums<width>& sums) {
  return ToActivations<T>(sums, [](float x, int, int) { return FromFloat<T>(fmaxf(x, 0.0f)); });
}

// A gradient clamped to the range of T, which sums may exceed.
template <typename T>
__device__ T Gradient(float x) {
  constexpr float kLargestHalf = 65504.0f;
  if constexpr (sizeof(T) == 2) x = fminf(fmaxf(x, -kLargestHalf), kLargestHalf);
  return FromFloat<T>(x);
}

// The gradient by the inputs of a ReLU whose outputs were `activations`.
template <typename T, int width>
__device__ Activations<T, width> ReluBackward(const Sums<width>& sums,
                                              const Activations<T, width>& activations) {
  return ToActivations<T>(sums, [&](float x, int n, int i) {
    const Pair<T>& pair = activations.parts[n / 2].r[2 * (n % 2) + i / 2];
    return ToFloat(i % 2 == 0 ? pair.x : pair.y) > 0 ? Gradient<T>(x) : FromFloat<T>(0.0f);
  });
}

// Products need the whole warp converged. Loads that some lanes skip make it diverge.
__device__ inline void Reconverge() { __syncwarp(); }

// Row index of a sample that does not exist.
constexpr uint32_t kNoRow = ~0u;

// Whether this block has any row of the range. If not, it need not load the weights; late waves of
// a step are often empty.
__device__ inline bool HasRows(const DeviceRange& range) {
  const Elements all = ElementsOf(range);
  return blockIdx.x * kBlockRows < all.size();
}

// Calls body(lane, elements) until the warps of the grid have covered the range. elements are those
// of this lane's rows g and g + 8, kNoRow beyond the end.
template <typename Body>
__device__ void ForEachWarpRows(const DeviceRange& range, Body body) {
  const Lane lane;
  const Elements all = ElementsOf(range);
  const uint32_t warp = (blockIdx.x * kMlpBlock + threadIdx.x) / kWarp;
  for (uint32_t first = all.begin + warp * kWarpRows; first < all.end;
       first += gridDim.x * kBlockRows) {
    const uint32_t at = first + lane.g;
    const uint32_t elements[2] = {at < all.end ? at : kNoRow, at + 8 < all.end ? at + 8 : kNoRow};
    body(lane, elements);
  }
}

// Loads of activations. rows[0], rows[1]: array rows of the samples of this lane's fragment rows g
// and g + 8, or kNoRow, which loads zeros.

template <typename T>
__device__ Pair<T> LoadPair(const T* row_major, uint32_t row, int width, int column) {
  if (row == kNoRow) return {};
  return *reinterpret_cast<const Pair<T>*>(row_major + size_t{row} * width + column);
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

// Rows of a row-major array [..][16].
template <typename T>
__device__ FragmentA<T> LoadSixteen(const T* row_major, const uint32_t (&rows)[2]) {
  const int column = 2 * Lane().q;
  return {{LoadPair(row_major, rows[0], 16, column), LoadPair(row_major, rows[1], 16, column),
           LoadPair(row_major, rows[0], 16, column + 8),
           LoadPair(row_major, rows[1], 16, column + 8)}};
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

// Writes a warp's 16 rows of a staged array.
template <typename T, int width>
__device__ void Stage(const Activations<T, width>& activations, T* warp_rows) {
  const Lane lane;
#pragma unroll
  for (int part = 0; part < width / 16; ++part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      T* const at = warp_rows + (lane.g + 8 * (i % 2)) * kStagedStride + 16 * part + 8 * (i / 2);
      reinterpret_cast<Pair<T>*>(at)[lane.q] = activations.parts[part].r[i];
    }
  }
}

// The tiles of one layer's weight gradients that a warp owns: 16 inputs by 8 outputs each, numbered
// along the outputs first.
template <int n_in, int n_out>
struct WeightGradients {
  static constexpr int kColumns = n_out / 8;
  static constexpr int kTiles = n_in / 16 * kColumns;
  static constexpr int kOwned = (kTiles + kMlpWarps - 1) / kMlpWarps;
  // Each warp owns kOwned adjacent tiles or none. Adjacent tiles share their inputs.
  static_assert(kTiles % kOwned == 0 && kColumns % kOwned == 0);
  FragmentC tiles[kOwned];

  // Adds the block's staged rows. Called by whole warps, between two barriers.
  template <typename T>
  __device__ void Add(const T* inputs, const T* grad_outputs) {
    const int first = threadIdx.x / kWarp * kOwned;
    if (first >= kTiles) return;
    const int row = first / kColumns * 16, column = first % kColumns * 8;
#pragma unroll 2
    for (int k = 0; k < kBlockRows; k += 16) {
      const FragmentA<T> a = LoadTransposedA(inputs + k * kStagedStride + row, kStagedStride);
#pragma unroll
      for (int i = 0; i < kOwned; ++i)
        MultiplyAdd(a, LoadB(grad_outputs + k * kStagedStride + column + 8 * i, kStagedStride),
                    &tiles[i]);
    }
  }

  // Stores the tiles at the layer's offset among the weights.
  template <int layer>
  __device__ void Store(float* weights) const {
    constexpr int kOffset = kNgpLayers[layer].offset, kStride = kNgpLayers[layer].n_out;
    const Lane lane;
    const int first = threadIdx.x / kWarp * kOwned;
    if (first >= kTiles) return;
    const int row = first / kColumns * 16 + lane.g;
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      const int column = (first % kColumns + i) * 8 + 2 * lane.q;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        weights[kOffset + (row + 8 * (j / 2)) * kStride + column + j % 2] = tiles[i].r[j];
    }
  }
};

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
  sums0.Store<0>(own);
  sums1.Store<1>(own);
  sums2.Store<2>(own);
  sums3.Store<3>(own);
  sums4.Store<4>(own);
}

template <typename Params>
void LaunchMlp(const char* name, void (*kernel)(Params), const Params& params, size_t shared_bytes,
               Stream stream) {
  const uint32_t n_blocks = (params.range.capacity + kBlockRows - 1) / kBlockRows;
  if (n_blocks == 0) return;
  const int resident = ResidentBlocks(kernel, kMlpBlock, shared_bytes);
  Launch(name, kernel, std::min(static_cast<int>(n_blocks), resident), kMlpBlock, shared_bytes,
         stream, params);
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
