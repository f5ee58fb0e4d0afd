#include "server/queue/grant_policy.h"

#include <algorithm>

namespace nerf {

bool OffersCapability(const std::vector<std::string>& offered, std::string_view wanted) {
  return offered.empty() || std::find(offered.begin(), offered.end(), wanted) != offered.end();
}

void WorkerSlot::ForgetGrantOf(const LeaseRef& lease) {
  if (granted_.has_value() && granted_->key() == lease.key() && granted_->epoch == lease.epoch) {
    granted_.reset();
  }
}

void WorkerSlot::Hear(const std::optional<LeaseRef>& held, bool draining) {
  draining_ = draining;
  end_pending_ = false;
  held_ = held;
  if (held.has_value()) ForgetGrantOf(*held);
}

void WorkerSlot::HearEnd(const LeaseRef& lease, bool draining) {
  draining_ = draining;
  end_pending_ = true;
  held_.reset();
  ForgetGrantOf(lease);
}

void WorkerSlot::Grant(const LeaseRef& lease, SteadyTime now) {
  granted_ = lease;
  granted_at_ = now;
}

bool WorkerSlot::MayBeGranted(SteadyTime now) const {
  if (draining_ || end_pending_ || held_.has_value()) return false;
  // Until its TTL has passed, a grant may still be in flight.
  return !granted_.has_value() || now - granted_at_ > lease_ttl_;
}

}  // namespace nerf
