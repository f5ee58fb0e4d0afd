#pragma once

#include <torch/torch.h>

#include <memory>

#include "engine/train/group/group.h"

namespace nerf {

// The all-reduce of data-parallel training: adds up a tensor over the ranks of a group.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // Replaces `values`, floats that lie one after another and as many on every rank, by their sum
  // over the ranks, which has the same bytes on each. Throws GroupError.
  virtual void AllReduce(const torch::Tensor& values) = 0;
};

// Connects the ranks: called by all of them, between their transfers. c10d's all-reduce over Gloo,
// which has sockets of its own on the group's network interface; what it sends is added to the
// group's traffic. Where Gloo is not installed, a gather and a broadcast of the group. group
// outlives the sum. Throws GroupError.
std::unique_ptr<GradientSum> NewGradientSum(Group* group);

}  // namespace nerf
