#pragma once

#include <torch/types.h>

#include "engine/base/buffer.h"
#include "engine/kernels/hash_encoding.h"
#include "engine/kernels/stream.h"

namespace nerf::autograd {

// HashEncode by the kernels of kernels::cuda, differentiable by the table alone, and once.
// Requires: shapes as HashEncode checks them, 2 or 4 features, table and positions float32 on one
// device, positions without gradient. The kernels run in `stream`, which is LibTorch's current one
// and outlives the graph, and so does `allocator`; their arrays between the two layouts come from
// it. Sums of the gradient depend on the order of the additions.
torch::Tensor HashEncodeWithKernels(const kernels::HashGridShape& shape, const torch::Tensor& table,
                                    const torch::Tensor& positions, kernels::Stream stream,
                                    BufferAllocator* allocator);

}  // namespace nerf::autograd
