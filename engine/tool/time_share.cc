#include "engine/tool/time_share.h"

#include <algorithm>

namespace nerf {
namespace {

constexpr absl::Duration kMostAhead = absl::Seconds(1);
constexpr double kEarned = 0.75;  // time of renders for each second of training
// Switching between shorter turns would take longer than the turns.
constexpr absl::Duration kLeastTurn = absl::Milliseconds(20);

}  // namespace

TimeShare::TimeShare(const Clock* clock)
    : clock_(clock), ahead_(kMostAhead), turned_(clock->Now()) {}

bool TimeShare::TakeTurn() {
  const SteadyTime now = clock_->Now();
  ahead_ = std::min(kMostAhead, ahead_ + kEarned * (now - turned_));
  turned_ = now;
  return ahead_ >= kLeastTurn;
}

bool TimeShare::IsSpent() const { return clock_->Now() - turned_ >= ahead_; }

void TimeShare::GiveTurn() {
  const SteadyTime now = clock_->Now();
  ahead_ -= now - turned_;
  turned_ = now;
}

}  // namespace nerf
