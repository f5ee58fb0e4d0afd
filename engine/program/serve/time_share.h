#pragma once

#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// Divides the time of one thread between a training and renders. Renders may use three quarters of
// the time that the training has used, plus one second: a small picture is rendered at once, and a
// large one slows the training instead of stopping it. At least half of the time is left to the
// training also where copies of weights and sending of pictures take some. Used from one thread.
class TimeShare {
 public:
  // Begins with the training's turn.
  explicit TimeShare(const Clock* clock);

  // Asks for a turn of the renders. Returns false, and it stays the training's turn, if they have
  // no time left.
  bool TakeTurn();
  // Whether the renders' turn should end. Requires: TakeTurn returned true.
  bool IsSpent() const;
  // Ends the renders' turn. Requires: TakeTurn returned true.
  void GiveTurn();

 private:
  const Clock* const clock_;
  absl::Duration ahead_;  // time that renders may still use
  SteadyTime turned_;     // begin of the present turn
};

}  // namespace nerf
