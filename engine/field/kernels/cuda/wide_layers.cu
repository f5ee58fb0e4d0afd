#include "engine/field/kernels/wide_layers.h"

#include <algorithm>

#include "engine/field/kernels/cuda/mlp_layers.cuh"

// A block multiplies 128 rows by 64 columns, 16 rows a warp; the weights pass through shared memory
// in tiles of 64 by 64. Rows are read from global memory in the layout of the products.
namespace nerf::kernels::cuda {
namespace {

constexpr int kTile = 64, kTileStride = kTile + kPad;

template <typename T>
constexpr size_t TileBytes() {
  return sizeof(T) * kTile * kTileStride;
}

__host__ __device__ inline int TilesOf(int width) { return (width + kTile - 1) / kTile; }

template <typename T>
__device__ uint32_t RowOf(const WideInput<T>& input, uint32_t element) {
  if (element == kNoRow) return kNoRow;
  const uint32_t row = input.rows != nullptr ? input.rows[element] : element;
  return input.of != nullptr ? input.of[row] : row;
}

// Copies n_rows by n_columns elements, the latter a multiple of 16, to a tile. Called by the whole
// block, which needs a barrier before it reads it.
template <typename T>
__device__ void CopyTile(const T* from, int stride, int n_rows, int n_columns, T* tile) {
  constexpr int kChunk = sizeof(Chunk) / sizeof(T);
  const int row_chunks = n_columns / kChunk;
  for (int i = threadIdx.x; i < n_rows * row_chunks; i += kMlpBlock) {
    const int row = i / row_chunks, column = i % row_chunks * kChunk;
    *reinterpret_cast<Chunk*>(tile + row * kTileStride + column) =
        *reinterpret_cast<const Chunk*>(from + static_cast<size_t>(row) * stride + column);
  }
}

// Adds the product of the warp's rows, `width` wide, with a matrix of n_columns columns, at most
// 64. Its element (k, n) is at weights[k * stride + n] or, transposed, at weights[n * stride + k].
template <bool kTransposed, typename T>
__device__ void MultiplyRows(const T* values, int width, const uint32_t (&rows)[2],
                             const T* weights, int stride, int n_columns, T* tile,
                             FragmentC (&sums)[8]) {
  for (int k0 = 0; k0 < width; k0 += kTile) {
    const int n_k = min(kTile, width - k0);
    __syncthreads();  // until the tile before has been read
    if constexpr (kTransposed)
      CopyTile(weights + k0, stride, n_columns, n_k, tile);
    else
      CopyTile(weights + static_cast<size_t>(k0) * stride, stride, n_k, n_columns, tile);
    __syncthreads();
    for (int k = 0; k < n_k; k += 16) {
      const int column = k0 + k + 2 * Lane().q;
      const FragmentA<T> a = {{LoadPair(values, rows[0], width, column),
                               LoadPair(values, rows[1], width, column),
                               LoadPair(values, rows[0], width, column + 8),
                               LoadPair(values, rows[1], width, column + 8)}};
      Reconverge();
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (8 * n >= n_columns) continue;
        if constexpr (kTransposed)
          MultiplyAdd(a, LoadTransposedB(tile + 8 * n * kTileStride + k, kTileStride), &sums[n]);
        else
          MultiplyAdd(a, LoadB(tile + k * kTileStride + 8 * n, kTileStride), &sums[n]);
      }
    }
  }
}

// Calls body(elements, first column, columns) for all rows and tiles of columns of this block.
// elements: those of this lane's rows g and g + 8, kNoRow beyond the end.
template <typename Body>
__device__ void ForEachTile(const DeviceRange& range, int width, Body body) {
  const int n_tiles = TilesOf(width);
  const int first_column = static_cast<int>(blockIdx.x) % n_tiles * kTile;
  const int n_columns = min(kTile, width - first_column);
  const uint32_t n_blocks = gridDim.x / n_tiles;
  const Elements all = ElementsOf(range);
  for (uint32_t first = all.begin + blockIdx.x / n_tiles * kBlockRows; first < all.end;
       first += n_blocks * kBlockRows) {
    const uint32_t at = first + threadIdx.x / kWarp * kWarpRows + Lane().g;
    const uint32_t elements[2] = {at < all.end ? at : kNoRow, at + 8 < all.end ? at + 8 : kNoRow};
    body(elements, first_column, n_columns);
  }
}

// Calls store(sum of two neighbors, element, column) for the sums of a tile.
template <typename Store>
__device__ void ForEachPair(const FragmentC (&sums)[8], const uint32_t (&elements)[2],
                            int first_column, int n_columns, Store store) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (8 * n >= n_columns) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (elements[i] == kNoRow) continue;
      store(Pair<float>{sums[n].r[2 * i], sums[n].r[2 * i + 1]}, elements[i],
            first_column + 8 * n + 2 * Lane().q);
    }
  }
}

template <typename T>
__device__ void StorePair(T* rows, uint32_t row, int width, int column, const Pair<T>& pair) {
  *reinterpret_cast<Pair<T>*>(rows + size_t{row} * width + column) = pair;
}

template <typename T>
__global__ void __launch_bounds__(kMlpBlock)
    WideForwardKernel(const __grid_constant__ WideForwardParams<T> p) {
  T* const tile = SharedMemory<T>();
  ForEachTile(p.range, p.n_out, [&](const uint32_t(&elements)[2], int first_column, int n_columns) {
    FragmentC sums[8] = {};
    const T* weights = p.weights + first_column;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const WideInput<T>& input = p.inputs[i];
      const uint32_t rows[2] = {RowOf(input, elements[0]), RowOf(input, elements[1])};
      MultiplyRows<false>(input.values, input.width, rows, weights, p.n_out, n_columns, tile, sums);
      weights += static_cast<size_t>(input.width) * p.n_out;
    }
    ForEachPair(sums, elements, first_column, n_columns,
                [&](Pair<float> sum, uint32_t element, int column) {
                  const auto output = [&](float value, int at) {
                    value += ToFloat(p.biases[at]);
                    return Gradient<T>(p.relu ? fmaxf(value, 0.0f) : value);
                  };
                  StorePair<T>(p.outputs, element, p.n_out, column,
                               {output(sum.x, column), output(sum.y, column + 1)});
                });
  });
}

template <typename T>
__global__ void __launch_bounds__(kMlpBlock)
    WideBackwardKernel(const __grid_constant__ WideBackwardParams<T> p) {
  T* const tile = SharedMemory<T>();
  ForEachTile(p.range, p.n_in, [&](const uint32_t(&elements)[2], int first_column, int n_columns) {
    FragmentC sums[8] = {};
    MultiplyRows<true>(p.grad_outputs, p.n_out, elements,
                       p.weights + static_cast<size_t>(first_column) * p.n_out, p.n_out, n_columns,
                       tile, sums);
    ForEachPair(sums, elements, first_column, n_columns,
                [&](Pair<float> sum, uint32_t element, int column) {
                  if (p.more != nullptr) {
                    const Pair<T> more = LoadPair(p.more, element, p.n_in, column);
                    sum = {sum.x + ToFloat(more.x), sum.y + ToFloat(more.y)};
                  }
                  if (p.gate != nullptr) {
                    const Pair<T> gate = LoadPair(p.gate, element, p.n_in, column);
                    sum = {ToFloat(gate.x) > 0 ? sum.x : 0.0f, ToFloat(gate.y) > 0 ? sum.y : 0.0f};
                  }
                  StorePair<T>(p.grad_inputs, element, p.n_in, column,
                               {Gradient<T>(sum.x), Gradient<T>(sum.y)});
                });
  });
}

// Copies columns [column, column + n_columns) of 64 elements' rows to a tile, with zeros behind the
// last element.
template <typename T>
__device__ void StageTile(const WideInput<T>& from, int column, int n_columns, uint32_t first,
                          uint32_t end, T* tile) {
  constexpr int kChunk = sizeof(Chunk) / sizeof(T);
  const int row_chunks = n_columns / kChunk;
  for (int i = threadIdx.x; i < kTile * row_chunks; i += kMlpBlock) {
    const int row = i / row_chunks, at = i % row_chunks * kChunk;
    Chunk chunk = {};
    if (first + row < end) {
      const size_t begin = size_t{RowOf(from, first + row)} * from.width + column + at;
      chunk = *reinterpret_cast<const Chunk*>(from.values + begin);
    }
    *reinterpret_cast<Chunk*>(tile + row * kTileStride + at) = chunk;
  }
}

// A block sums one tile of 64 by 64 weights over the rows of one part; a warp 16 of its rows by 32
// of its columns.
template <typename T>
__global__ void __launch_bounds__(kMlpBlock)
    WideGradientKernel(const __grid_constant__ WideGradientParams<T> p) {
  T* const inputs = SharedMemory<T>();
  T* const grads = inputs + kTile * kTileStride;
  const int n_tiles = TilesOf(p.input.width) * TilesOf(p.n_out);
  const int part = static_cast<int>(blockIdx.x) / n_tiles;
  const int number = static_cast<int>(blockIdx.x) % n_tiles;
  const int in0 = number / TilesOf(p.n_out) * kTile, out0 = number % TilesOf(p.n_out) * kTile;
  const int n_in = min(kTile, p.input.width - in0), n_out = min(kTile, p.n_out - out0);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp % 4 * 16, column = warp / 4 * 32;
  const bool sums_biases = in0 == 0 && p.grad_biases != nullptr;
  const WideInput<T> of_outputs{p.grad_outputs, p.n_out};
  const Elements all = ElementsOf(p.range);
  FragmentC sums[4] = {};
  float bias = 0;  // of column threadIdx.x
  for (uint32_t first = all.begin + part * kTile; first < all.end; first += kWideParts * kTile) {
    __syncthreads();
    StageTile(p.input, in0, n_in, first, all.end, inputs);
    StageTile(of_outputs, out0, n_out, first, all.end, grads);
    __syncthreads();
    if (sums_biases && static_cast<int>(threadIdx.x) < n_out) {
      for (int k = 0; k < kTile; ++k) bias += ToFloat(grads[k * kTileStride + threadIdx.x]);
    }
    Reconverge();
    if (row >= n_in) continue;
    for (int k = 0; k < kTile; k += 16) {
      const FragmentA<T> a = LoadTransposedA(inputs + k * kTileStride + row, kTileStride);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (column + 8 * n >= n_out) continue;
        MultiplyAdd(a, LoadB(grads + k * kTileStride + column + 8 * n, kTileStride), &sums[n]);
      }
    }
  }
  if (sums_biases && static_cast<int>(threadIdx.x) < n_out)
    p.grad_biases[part * p.part_stride + out0 + threadIdx.x] = bias;
  if (row >= n_in) return;
  const Lane lane;
  float* const to = p.grad_weights + part * p.part_stride;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    if (column + 8 * n >= n_out) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int in = in0 + row + lane.g + 8 * (j / 2);
      to[static_cast<size_t>(in) * p.n_out + out0 + column + 8 * n + 2 * lane.q + j % 2] =
          sums[n].r[j];
    }
  }
}

// One block or more for each tile of `width` columns.
template <typename Params>
void LaunchTiles(const char* name, void (*kernel)(Params), const Params& params, int width,
                 size_t shared_bytes, Stream stream) {
  const auto n_blocks = static_cast<int>((params.range.capacity + kBlockRows - 1) / kBlockRows);
  if (n_blocks == 0) return;
  const int n_tiles = TilesOf(width);
  const int resident = ResidentBlocks(kernel, kMlpBlock, shared_bytes);
  Launch(name, kernel, n_tiles * std::clamp(resident / n_tiles, 1, n_blocks), kMlpBlock,
         shared_bytes, stream, params);
}

template <typename T>
void LaunchGradient(const WideGradientParams<T>& params, Stream stream) {
  const int n_tiles = TilesOf(params.input.width) * TilesOf(params.n_out);
  ResidentBlocks(WideGradientKernel<T>, kMlpBlock, 2 * TileBytes<T>());  // asks for shared memory
  Launch("wide_gradient", WideGradientKernel<T>, kWideParts * n_tiles, kMlpBlock,
         2 * TileBytes<T>(), stream, params);
}

}  // namespace

void WideForward(const WideForwardParams<float>& params, Stream stream) {
  LaunchTiles("wide_forward", WideForwardKernel<float>, params, params.n_out, TileBytes<float>(),
              stream);
}
void WideForward(const WideForwardParams<Half>& params, Stream stream) {
  LaunchTiles("wide_forward", WideForwardKernel<Half>, params, params.n_out, TileBytes<Half>(),
              stream);
}
void WideBackward(const WideBackwardParams<float>& params, Stream stream) {
  LaunchTiles("wide_backward", WideBackwardKernel<float>, params, params.n_in, TileBytes<float>(),
              stream);
}
void WideBackward(const WideBackwardParams<Half>& params, Stream stream) {
  LaunchTiles("wide_backward", WideBackwardKernel<Half>, params, params.n_in, TileBytes<Half>(),
              stream);
}
void WideGradient(const WideGradientParams<float>& params, Stream stream) {
  LaunchGradient(params, stream);
}
void WideGradient(const WideGradientParams<Half>& params, Stream stream) {
  LaunchGradient(params, stream);
}

}  // namespace nerf::kernels::cuda
