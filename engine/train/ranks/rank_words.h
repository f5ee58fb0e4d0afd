#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/mutex.h"
#include "engine/base/background_thread.h"
#include "engine/train/batch/pixel_batch.h"
#include "engine/train/group/group.h"

namespace nerf {

// What rank 0 tells the others between two steps; they wait for it.
struct RankWord {
  enum class Kind : int32_t {
    kWait,       // rank 0 is busy with something of its own and will say more
    kStep,       // all run the next step
    kCollect,    // all call TrainingStep::CollectState
    kLoadViews,  // all copy the current weights: those of the views to come (rank_views.h)
    kView,       // all render tiles of a view
    kEnd,        // the training is over
  };
  Kind kind = Kind::kWait;
  int32_t outcome = 0;  // with kEnd: a TrainOutcome
};

// On rank 0. Does nothing without a group. Throws GroupError, as the next function does.
void TellRanks(Group* group, const RankWord& word);
// On another rank: the next word.
RankWord HearRank0(Group* group);

// On rank 0, sends the batch's pixels to the others; there, receives them into a batch of the same
// size. Throws GroupError, also for pixels of none of n_views views.
void FeedRanks(Group* group, int n_views, PixelBatch* batch);

// Pauses of rank 0 between two steps. In a pause rank 0 makes transfers in Use alone, and the
// others are told every few seconds to wait, so that a long work of rank 0 does not look like a
// rank that stands still. Renderers that outlive the training may keep it.
class RankPause {
 public:
  explicit RankPause(Group* group);  // used until Close
  ~RankPause();
  RankPause(const RankPause&) = delete;
  RankPause& operator=(const RankPause&) = delete;

  void Begin();
  void End();
  // There will be no more pause.
  void Close();

  // The others copy their weights for views, in place of those of earlier ones. Returns the number
  // of these views, from 1; 0 outside a pause. Throws GroupError.
  uint32_t LoadViews();
  // Calls `transfers` and returns true; false outside a pause or where `views` are not the last
  // ones loaded. Throws what `transfers` throws.
  bool Use(uint32_t views, const std::function<void(Group*)>& transfers);

 private:
  void Run();

  Group* const group_;
  Mutex mu_;
  CondVar changed_;
  bool pausing_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  uint32_t n_views_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<BackgroundThread> thread_;  // last, since it uses the members above
};

// Begins a pause for a scope. Does nothing with null.
class PauseScope {
 public:
  explicit PauseScope(RankPause* pause) : pause_(pause) {
    if (pause_ != nullptr) pause_->Begin();
  }
  ~PauseScope() {
    if (pause_ != nullptr) pause_->End();
  }
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  RankPause* const pause_;
};

}  // namespace nerf
