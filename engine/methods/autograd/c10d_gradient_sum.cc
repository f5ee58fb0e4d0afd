#include <chrono>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/pipe_signal_block.h"
#include "engine/methods/autograd/gradient_sum.h"
#include "fmt/format.h"
#include "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"

namespace nerf {
namespace {

constexpr std::chrono::seconds kTimeLimit(20);  // for a rank that stands still

// c10d's key-value store over the group. Gloo sets each of its keys on every rank, in the same
// order, before it reads those of others, so setting one is a gather.
class GroupStore final : public c10d::Store {
 public:
  explicit GroupStore(Group* group) : group_(group) {}

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    std::vector<ByteBlock> from;
    AllGather(group_, std::as_bytes(std::span(value)), &from);
    // Keys end in the rank: "rank_3", "3".
    const std::string own = std::to_string(group_->rank());
    const std::string prefix = key.substr(0, key.size() - own.size());
    values_[key] = value;
    for (int rank = 0; rank < group_->n_ranks(); ++rank) {
      if (rank == group_->rank()) continue;
      const auto* const bytes = reinterpret_cast<const uint8_t*>(from[rank].bytes().data());
      values_[prefix + std::to_string(rank)].assign(bytes, bytes + from[rank].bytes().size());
    }
  }
  std::vector<uint8_t> get(const std::string& key) override {
    const auto found = values_.find(key);
    if (found == values_.end()) throw GroupError(fmt::format("c10d asks for {}", key));
    return found->second;
  }
  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      if (!values_.contains(key)) return false;
    }
    return true;
  }
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}

  // Not used by Gloo.
  int64_t add(const std::string& key, int64_t) override { throw NotStored(key); }
  bool deleteKey(const std::string& key) override { throw NotStored(key); }
  int64_t getNumKeys() override { return static_cast<int64_t>(values_.size()); }
  // Of newer LibTorch alone, hence no `override`.
  c10::intrusive_ptr<c10d::Store> clone() { throw GroupError("c10d copies its store"); }

 private:
  static GroupError NotStored(const std::string& key) {
    return GroupError(fmt::format("c10d changes {}", key));
  }

  Group* const group_;
  std::map<std::string, std::vector<uint8_t>> values_;
};

class C10dGradientSum final : public GradientSum {
 public:
  explicit C10dGradientSum(Group* group) : group_(group) {
    const PipeSignalBlock block;  // also of the threads that c10d starts
    auto options = c10d::ProcessGroupGloo::Options::create(kTimeLimit);
    options->threads = 1;
    const std::string interface = group->interface();
    options->devices.push_back(interface.empty()
                                   ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                   : c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    ranks_ = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<GroupStore>(group),
                                                         group->rank(), group->n_ranks(), options);
  }

  void AllReduce(const torch::Tensor& values) override {
    const auto begin = std::chrono::steady_clock::now();
    try {
      std::vector<at::Tensor> tensors = {values};
      ranks_->allreduce(tensors)->wait();
    } catch (const std::exception& e) {
      throw GroupError(fmt::format("c10d's all-reduce failed: {}", e.what()));
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    // Gloo adds up along a ring: each rank sends each part of the sum but its own, and then each
    // part of the result.
    const auto n = static_cast<int64_t>(values.nbytes());
    const int64_t sent = 2 * n * (group_->n_ranks() - 1) / group_->n_ranks();
    group_->AddTraffic({sent, sent, 1, spent.count()});
  }

 private:
  Group* const group_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> ranks_;
};

}  // namespace

std::unique_ptr<GradientSum> NewGradientSum(Group* group) {
  try {
    return std::make_unique<C10dGradientSum>(group);
  } catch (const GroupError&) {
    throw;
  } catch (const std::exception& e) {
    throw GroupError(fmt::format("c10d cannot connect the ranks: {}", e.what()));
  }
}

}  // namespace nerf
