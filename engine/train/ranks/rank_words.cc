#include "engine/train/ranks/rank_words.h"

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
  BroadcastValue(group, 0, &word);
  return word;
}

void FeedRanks(Group* group, int n_views, PixelBatch* batch) {
  const auto share = [group](auto* values) {
    Broadcast(group, 0, std::as_writable_bytes(std::span(*values)));
  };
  share(&batch->pixels);
  for (const Pixel& pixel : batch->pixels) {
    const bool is_there = pixel.view >= 0 && pixel.view < n_views;
    if (group->rank() > 0 && !is_there)
      throw GroupError("rank 0 sent a pixel of a view that is not there", 0);
  }
  share(&batch->targets);
  share(&batch->backgrounds);
  if (!batch->weights.empty()) share(&batch->weights);
}

RankPause::RankPause(Group* group)
    : group_(group), thread_(std::make_unique<BackgroundThread>("rank-pause", [this] { Run(); })) {}

RankPause::~RankPause() { Close(); }

void RankPause::Begin() {
  const MutexLock lock(mu_);
  pausing_ = !closed_;
  changed_.NotifyAll();
}

void RankPause::End() {
  const MutexLock lock(mu_);
  pausing_ = false;
}

void RankPause::Close() {
  {
    const MutexLock lock(mu_);
    pausing_ = false;
    closed_ = true;
    changed_.NotifyAll();
  }
  thread_.reset();
}

uint32_t RankPause::LoadViews() {
  const MutexLock lock(mu_);
  if (!pausing_) return 0;
  TellRanks(group_, {RankWord::Kind::kLoadViews});
  return ++n_views_;
}

bool RankPause::Use(uint32_t views, const std::function<void(Group*)>& transfers) {
  const MutexLock lock(mu_);
  if (!pausing_ || views != n_views_) return false;
  transfers(group_);
  return true;
}

void RankPause::Run() {
  const MutexLock lock(mu_);
  while (!closed_) {
    if (!pausing_) {
      changed_.Wait(mu_);
      continue;
    }
    if (changed_.WaitFor(mu_, kWordInterval) || !pausing_ || closed_) continue;
    try {
      TellRanks(group_, {RankWord::Kind::kWait});
    } catch (const GroupError&) {
      return;  // thrown again by the next transfer
    }
  }
}

}  // namespace nerf
