#pragma once

#include <torch/types.h>

#include "engine/base/buffer.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/stream.h"

namespace nerf::autograd {

// HashEncode by the kernels of kernels::cuda, differentiable once, by the table only. Requires:
// shapes as HashEncode checks them, 2 or 4 features, table and positions float32 on one device,
// positions without gradient. The kernels run in `stream`, LibTorch's current one, and allocate
// temporary arrays from `allocator`; both outlive the graph. Gradients are summed in an arbitrary
// order.
torch::Tensor HashEncodeWithKernels(const kernels::HashGridShape& shape, const torch::Tensor& table,
                                    const torch::Tensor& positions, kernels::Stream stream,
                                    BufferAllocator* allocator);

}  // namespace nerf::autograd
