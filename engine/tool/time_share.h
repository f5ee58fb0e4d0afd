#pragma once

#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// Shares one thread between a training and the renders asked for beside it: they may take as much
// time as the training did, and a second ahead of it, so that a small picture comes at once and
// a large one halves the training's rate where it would have stopped it. Used from one thread.
class TimeShare {
 public:
  // The training goes on.
  explicit TimeShare(const Clock* clock);

  // The training pauses. Returns whether a render may go on for a while; if not, it stays the
  // training's turn.
  bool TakeTurn();
  // The render's turn is over. Requires: TakeTurn returned true.
  bool IsSpent() const;
  // The training goes on. Requires: TakeTurn returned true.
  void GiveTurn();

 private:
  const Clock* const clock_;
  absl::Duration ahead_;  // what renders may take yet
  SteadyTime turned_;     // when the turn changed
};

}  // namespace nerf
