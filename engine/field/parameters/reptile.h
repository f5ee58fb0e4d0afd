#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/config/tensor_shape.h"
#include "engine/field/files/tensor_file.h"

namespace nerf {

// Reptile, step by step: each outer step trains the parameters on one scene and moves them a part
// of the way to what came out,
//   theta <- theta + rate_i (trained - theta),  rate_i = rate (1 - i / n).
// The result is a start from which the scenes are learned in few steps.
// Source: Nichol, Achiam and Schulman 2018, "On First-Order Meta-Learning Algorithms".

// rate_i of outer step i of n, from 0. The first result is taken whole, since nothing was before.
double ReptileRate(double rate, int i, int n);

// The scene of outer step i: each `n_scenes` steps visit every scene once, in an order at random.
// A pure function of the arguments.
int ReptileScene(uint32_t seed, int i, int n_scenes);

// Moves `theta` (F32). tensors: all those of the field; theta gets those that it lacks as they are
// in `trained`. Errors: InvalidArgument naming the tensor that is missing, of another shape, of no
// floats, or of which a mean means nothing; theta is then not changed.
absl::Status MoveTowards(const TensorFile& trained, const std::vector<TensorShape>& tensors,
                         double rate, TensorFile* theta);

}  // namespace nerf
