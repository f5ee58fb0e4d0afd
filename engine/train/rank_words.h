#pragma once

#include <cstdint>

#include "common/mutex.h"
#include "engine/base/background_thread.h"
#include "engine/group/group.h"
#include "engine/train/pixel_batch.h"

namespace nerf {

// What rank 0 tells the others between two steps; they wait for it.
struct RankWord {
  enum class Kind : int32_t {
    kWait,     // rank 0 is busy with something of its own and will say more
    kStep,     // all run the next step
    kCollect,  // all call TrainingStep::CollectState
    kEnd,      // the training is over
  };
  Kind kind = Kind::kWait;
  int32_t outcome = 0;  // with kEnd: a TrainOutcome
};

// On rank 0. Does nothing without a group. Throws GroupError, as the next function does.
void TellRanks(Group* group, const RankWord& word);
// On another rank: the next word that is not kWait.
RankWord HearRank0(Group* group);

// On rank 0, sends the batch's pixels to the others; there, receives them into a batch of the same
// size. Throws GroupError.
void FeedRanks(Group* group, PixelBatch* batch);

// While rank 0 has one, it makes no transfers of its own, and the others are told every few seconds
// to wait, so that a long preview does not look like a rank that stands still.
class RankPause {
 public:
  explicit RankPause(Group* group);
  ~RankPause();
  RankPause(const RankPause&) = delete;
  RankPause& operator=(const RankPause&) = delete;

 private:
  void Run();

  Group* const group_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  BackgroundThread thread_;  // last, since it uses the members above
};

}  // namespace nerf
