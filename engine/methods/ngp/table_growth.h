#pragma once

#include "engine/base/buffer.h"
#include "engine/kernels/hash_encoding.h"
#include "engine/train/tensor_file.h"

namespace nerf {

// `shape` with the number of entries that the file's hash table has, if that is a smaller power of
// two; else `shape`.
kernels::HashGridShape ShapeOfStart(const TensorFile& file, const kernels::HashGridShape& shape);

// A table of `to` that encodes every point as `table` of `from` does. A hash in the larger table,
// modulo the smaller size, is the hash in the smaller one, so each entry is a copy.
// Shapes: table [n_levels][from.entries()][n_features]. Requires: from and to differ at most in
// log2_hashmap_size, which in `from` is not larger.
Buffer<float> GrownTable(const kernels::HashGridShape& from, const kernels::HashGridShape& to,
                         const Buffer<float>& table);

}  // namespace nerf
