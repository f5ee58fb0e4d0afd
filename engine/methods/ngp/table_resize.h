#pragma once

#include "engine/base/buffer.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/hash_encoding.h"

namespace nerf {

// `shape` with the number of entries that the file's hash table has, if that is a power of two;
// else `shape`.
kernels::HashGridShape ShapeOfStart(const TensorFile& file, const kernels::HashGridShape& shape);

// A table of `to` that starts where `table` of `from` ended. A hash in the larger table, modulo the
// smaller size, is the hash in the smaller one. So a larger table holds copies, and encodes every
// point as `table` does. An entry of a smaller one is the mean of those that fall on it, weighted
// by their squared norms: most entries hold little, and would dilute the few that surfaces use.
// Levels whose vertices fit into both are copied.
// Shapes: table [n_levels][from.entries()][n_features]. Requires: from and to differ at most in
// log2_hashmap_size.
Buffer<float> ResizedTable(const kernels::HashGridShape& from, const kernels::HashGridShape& to,
                           const Buffer<float>& table);

}  // namespace nerf
