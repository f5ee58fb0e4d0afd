#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "engine/train/group/group.h"

namespace nerf {

// Changes the blocks that come to this rank, as a damaged or hostile rank would send them.
class ChangingGroup final : public Group {
 public:
  // number: of the block among all that come, from 0.
  using Change = std::function<void(int number, ByteBlock*)>;
  ChangingGroup(Group* group, Change change) : group_(group), change_(std::move(change)) {}
  int rank() const override { return group_->rank(); }
  int n_ranks() const override { return group_->n_ranks(); }
  void Abort(const std::string& reason) override { group_->Abort(reason); }

 private:
  void DoTransfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    group_->Transfer(out, in);
    for (const Incoming& block : in) change_(n_blocks_++, block.block);
  }

  Group* const group_;
  const Change change_;
  int n_blocks_ = 0;
};

// Changes block number `at` alone.
using BlockChange = std::function<void(ByteBlock*)>;
inline ChangingGroup::Change ChangeBlock(int at, BlockChange change) {
  return [at, change = std::move(change)](int number, ByteBlock* block) {
    if (number == at) change(block);
  };
}

}  // namespace nerf
