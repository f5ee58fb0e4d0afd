#include "engine/program/serve/time_share.h"

#include <algorithm>

namespace nerf {
namespace {

constexpr absl::Duration kMaxAhead = absl::Seconds(1);
constexpr double kRenderShare = 0.75;  // time of renders for each second of training
// Switching between shorter turns would take longer than the turns.
constexpr absl::Duration kMinTurn = absl::Milliseconds(20);

}  // namespace

TimeShare::TimeShare(const Clock* clock)
    : clock_(clock), ahead_(kMaxAhead), turned_(clock->Now()) {}

bool TimeShare::TakeTurn() {
  const SteadyTime now = clock_->Now();
  ahead_ = std::min(kMaxAhead, ahead_ + kRenderShare * (now - turned_));
  turned_ = now;
  return ahead_ >= kMinTurn;
}

bool TimeShare::IsSpent() const { return clock_->Now() - turned_ >= ahead_; }

void TimeShare::GiveTurn() {
  const SteadyTime now = clock_->Now();
  ahead_ -= now - turned_;
  turned_ = now;
}

}  // namespace nerf
