#include "engine/train/rank_words.h"

#include <span>

#include "absl/time/time.h"

namespace nerf {
namespace {

constexpr absl::Duration kWordInterval = absl::Seconds(5);  // a group gives a rank 20 s

}  // namespace

void TellRanks(Group* group, const RankWord& word) {
  RankWord copy = word;
  if (group != nullptr) BroadcastValue(group, 0, &copy);
}

RankWord HearRank0(Group* group) {
  RankWord word;
  while (word.kind == RankWord::Kind::kWait) BroadcastValue(group, 0, &word);
  return word;
}

void FeedRanks(Group* group, PixelBatch* batch) {
  const auto share = [group](auto* values) {
    Broadcast(group, 0, std::as_writable_bytes(std::span(*values)));
  };
  share(&batch->pixels);
  share(&batch->targets);
  share(&batch->backgrounds);
  if (!batch->weights.empty()) share(&batch->weights);
}

RankPause::RankPause(Group* group) : group_(group), thread_("rank-pause", [this] { Run(); }) {}

RankPause::~RankPause() {
  const MutexLock lock(mu_);
  ending_ = true;
  changed_.NotifyAll();
}

void RankPause::Run() {
  const MutexLock lock(mu_);
  while (!ending_) {
    if (changed_.WaitFor(mu_, kWordInterval)) continue;
    try {
      TellRanks(group_, {RankWord::Kind::kWait});
    } catch (const GroupError&) {
      return;  // thrown again by the next transfer
    }
  }
}

}  // namespace nerf
