#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/buffer.h"
#include "engine/field/kernels/stream.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/state.h"

namespace nerf {

// What a file stores of a training on a CUDA device: parameters, moments and averages, and the
// occupancy grid. The host keeps the number of updates.
struct CudaState {
  CudaState(size_t table_size, size_t n_grid_blocks, BufferAllocator* from)
      : table(table_size, from),
        table_first(table_size, from),
        table_second(table_size, from),
        table_average(table_size, from),
        weights(kNgpWeights, from),
        weights_first(kNgpWeights, from),
        weights_second(kNgpWeights, from),
        weights_average(kNgpWeights, from),
        grid_values(64 * n_grid_blocks, from),
        grid_blocks(n_grid_blocks, from) {}
  Buffer<float> table, table_first, table_second, table_average;
  Buffer<float> weights, weights_first, weights_second, weights_average;
  Buffer<float> grid_values;
  Buffer<uint64_t> grid_blocks;
};

// Copies between the device and a host state of the same config. Return when the copy is done.
void Upload(NgpState* host, CudaState* device, kernels::Stream stream);
void Download(const CudaState& device, NgpState* host, kernels::Stream stream);
// The same of parameters alone, of a state without a grid.
void Upload(NgpParameters* host, CudaState* device, kernels::Stream stream);
void Download(const CudaState& device, NgpParameters* host, kernels::Stream stream);
// Only what a model holds: averages and the grid's bits.
void DownloadModel(const CudaState& device, NgpState* host, kernels::Stream stream);
// Copies on the device, in stream order.
void Copy(const CudaState& from, CudaState* to, kernels::Stream stream);

}  // namespace nerf
