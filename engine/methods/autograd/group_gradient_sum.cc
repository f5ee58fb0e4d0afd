#include <cstring>
#include <span>
#include <vector>

#include "engine/methods/autograd/gradient_sum.h"

namespace nerf {
namespace {

// Rank 0 adds up, in the order of the ranks.
class GroupGradientSum final : public GradientSum {
 public:
  explicit GroupGradientSum(Group* group) : group_(group) {}

  void AllReduce(const torch::Tensor& values) override {
    const std::span<float> mine(values.data_ptr<float>(), values.numel());
    std::vector<ByteBlock> from;
    Gather(group_, 0, BytesOf(mine), &from);
    for (int rank = 1; group_->rank() == 0 && rank < group_->n_ranks(); ++rank) {
      if (from[rank].bytes().size() != mine.size_bytes())
        throw GroupError("another rank sums another number of values");
      std::vector<float> theirs(mine.size());
      std::memcpy(theirs.data(), from[rank].bytes().data(), mine.size_bytes());
      for (size_t i = 0; i < mine.size(); ++i) mine[i] += theirs[i];
    }
    Broadcast(group_, 0, std::as_writable_bytes(mine));
  }

 private:
  Group* const group_;
};

}  // namespace

std::unique_ptr<GradientSum> NewGradientSum(Group* group) {
  return std::make_unique<GroupGradientSum>(group);
}

}  // namespace nerf
