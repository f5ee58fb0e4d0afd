#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "engine/group/group.h"

namespace nerf {

// Changes block number `at` of those that come to this rank.
class HostileGroup final : public Group {
 public:
  using Change = std::function<void(ByteBlock*)>;
  HostileGroup(Group* group, int at, Change change)
      : group_(group), at_(at), change_(std::move(change)) {}
  int rank() const override { return group_->rank(); }
  int n_ranks() const override { return group_->n_ranks(); }
  void Abort(const std::string& reason) override { group_->Abort(reason); }

 private:
  void DoTransfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    group_->Transfer(out, in);
    for (const Incoming& block : in) {
      if (n_blocks_++ == at_) change_(block.block);
    }
  }

  Group* const group_;
  const int at_;
  const Change change_;
  int n_blocks_ = 0;
};

}  // namespace nerf
