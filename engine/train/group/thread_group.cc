#include "engine/train/group/thread_group.h"

#include <deque>
#include <utility>

#include "common/mutex.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// What all ranks share: blocks on their way, and why the group ended.
class Mailboxes {
 public:
  explicit Mailboxes(int n_ranks) : n_ranks_(n_ranks), boxes_(n_ranks * n_ranks), left_(n_ranks) {}

  int n_ranks() const { return n_ranks_; }

  void Send(int from, int to, Bytes bytes) {
    const MutexLock lock(mu_);
    ThrowIfEnded();
    boxes_[from * n_ranks_ + to].emplace_back(bytes.begin(), bytes.end());
    changed_.NotifyAll();
  }

  void Receive(int from, int to, ByteBlock* block) {
    const MutexLock lock(mu_);
    std::deque<std::vector<std::byte>>& box = boxes_[from * n_ranks_ + to];
    while (box.empty()) {
      if (left_[from]) EndLocked(fmt::format("rank {} is lost", from));
      ThrowIfEnded();
      changed_.Wait(mu_);
    }
    const std::vector<std::byte> bytes = std::move(box.front());
    box.pop_front();
    std::byte* const copy = block->Resize(bytes.size());
    if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  }

  // The rank is gone: what it sent still arrives, and who waits for more from it ends the group. A
  // rank that has all its results may thus leave before the others.
  void Leave(int rank) {
    const MutexLock lock(mu_);
    left_[rank] = true;
    changed_.NotifyAll();
  }

  void End(const std::string& reason) {
    const MutexLock lock(mu_);
    EndLocked(reason);
  }

 private:
  void EndLocked(const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (reason_.empty()) reason_ = reason;
    changed_.NotifyAll();
  }

  void ThrowIfEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!reason_.empty()) throw GroupError(reason_);
  }

  const int n_ranks_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::deque<std::vector<std::byte>>> boxes_ ABSL_GUARDED_BY(mu_);  // [from][to]
  std::vector<bool> left_ ABSL_GUARDED_BY(mu_);                                 // [rank]
  std::string reason_ ABSL_GUARDED_BY(mu_);
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(int rank, std::shared_ptr<Mailboxes> boxes) : rank_(rank), boxes_(std::move(boxes)) {}
  ~ThreadGroup() override { boxes_->Leave(rank_); }

  int rank() const override { return rank_; }
  int n_ranks() const override { return boxes_->n_ranks(); }
  void Abort(const std::string& reason) override { boxes_->End(reason); }

 private:
  void DoTransfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    for (const Outgoing& block : out) boxes_->Send(rank_, block.to, block.bytes);
    for (const Incoming& block : in) boxes_->Receive(block.from, rank_, block.block);
  }

  const int rank_;
  const std::shared_ptr<Mailboxes> boxes_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> NewThreadGroups(int n_ranks) {
  const auto boxes = std::make_shared<Mailboxes>(n_ranks);
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < n_ranks; ++rank)
    groups.push_back(std::make_unique<ThreadGroup>(rank, boxes));
  return groups;
}

}  // namespace nerf
