#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

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
constexpr int kPad = 8;                   // padding elements per row in shared memory
constexpr int kStagedStride = 64 + kPad;  // row of a staged array: the widest layer

struct alignas(16) Chunk {
  uint32_t words[4];
};

// Copies a layer [n_in][n_out] to shared memory, with rows of n_out + kPad. Called by the whole
// block, which needs a barrier before it reads it.
template <int n_in, int n_out, typename T>
__device__ void CopyLayer(const T* weights, T* shared) {
  constexpr int kChunk = sizeof(Chunk) / sizeof(T), kRowChunks = n_out / kChunk;
  for (int i = threadIdx.x; i < n_in * kRowChunks; i += kMlpBlock) {
    const int row = i / kRowChunks, column = i % kRowChunks * kChunk;
    *reinterpret_cast<Chunk*>(shared + row * (n_out + kPad) + column) =
        *reinterpret_cast<const Chunk*>(weights + row * n_out + column);
  }
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

// Rows of a row-major array [..][16].
template <typename T>
__device__ FragmentA<T> LoadSixteen(const T* row_major, const uint32_t (&rows)[2]) {
  const int column = 2 * Lane().q;
  return {{LoadPair(row_major, rows[0], 16, column), LoadPair(row_major, rows[1], 16, column),
           LoadPair(row_major, rows[0], 16, column + 8),
           LoadPair(row_major, rows[1], 16, column + 8)}};
}

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

  // Stores the tiles among the layer's weights, whose rows are `stride` apart.
  template <int stride = n_out>
  __device__ void Store(float* weights) const {
    const Lane lane;
    const int first = threadIdx.x / kWarp * kOwned;
    if (first >= kTiles) return;
    const int row = first / kColumns * 16 + lane.g;
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      const int column = (first % kColumns + i) * 8 + 2 * lane.q;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        weights[(row + 8 * (j / 2)) * stride + column + j % 2] = tiles[i].r[j];
    }
  }
};

template <typename Params>
void LaunchMlp(const char* name, void (*kernel)(Params), const Params& params, size_t shared_bytes,
               Stream stream) {
  const uint32_t n_blocks = (params.range.capacity + kBlockRows - 1) / kBlockRows;
  if (n_blocks == 0) return;
  const int resident = ResidentBlocks(kernel, kMlpBlock, shared_bytes);
  Launch(name, kernel, std::min(static_cast<int>(n_blocks), resident), kMlpBlock, shared_bytes,
         stream, params);
}

}  // namespace
}  // namespace nerf::kernels::cuda
