#include "server/queue/leases/grant_policy.h"

#include <algorithm>
#include <tuple>

#include "server/queue/jobs/any_training.h"
#include "server/queue/kinds/worker_description.h"

namespace nerf {

bool OffersCapability(const std::vector<std::string>& offered, std::string_view wanted) {
  const auto names = [&](std::string_view capability) {
    return std::find(offered.begin(), offered.end(), capability) != offered.end();
  };
  if (offered.empty() || names(kAnyTraining)) {
    return !NeedsAnnouncement(wanted) || names(wanted);
  }
  return names(wanted);
}

void FairShare::Granted(const std::string& project) {
  last_grants_[project] = ++n_grants_;
  if (last_grants_.size() <= kMaxProjects) return;
  last_grants_.erase(
      std::min_element(last_grants_.begin(), last_grants_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; }));
}

std::vector<std::string> FairShare::Order(const std::map<std::string, size_t>& at_work) const {
  const auto last_grant = [this](const std::string& project) {
    const auto found = last_grants_.find(project);
    return found == last_grants_.end() ? uint64_t{0} : found->second;
  };
  std::vector<std::string> projects;
  for (const auto& [project, n] : at_work) projects.push_back(project);
  std::sort(projects.begin(), projects.end(), [&](const auto& left, const auto& right) {
    return std::tuple(at_work.at(left), last_grant(left), left) <
           std::tuple(at_work.at(right), last_grant(right), right);
  });
  return projects;
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
