#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/lease.h"

namespace nerf {

// A worker that asks for a job.
struct GrantRequest {
  std::string worker = {};  // id
  // What it offers (CapabilityOf). Empty: unknown, and treated as everything.
  std::vector<std::string> capabilities = {};
  // For gangs (gang_policy.h): its machine, and with whom it trains together.
  std::string host = {};
  std::optional<GangDevice> gang_device = {};  // nullopt: it trains alone
  bool ranks_network = false;
  std::string hardware = {};  // of a CUDA device; members of a gang have the same
};

// True if `offered` contains `wanted` or is empty. An empty list means that the offer is unknown,
// and counts as everything.
bool OffersCapability(const std::vector<std::string>& offered, std::string_view wanted);

// Shares the workers between projects. Not thread-safe.
class FairShare {
 public:
  static constexpr size_t kMaxProjects = 1'000;  // remembered; older ones count as never granted

  void Granted(const std::string& project);
  // The projects of `at_work` (number of jobs that workers hold, by project) in the order in which
  // they get the next free worker: the one with the fewest jobs at work first, of equals the one
  // that has waited longest since its last grant.
  std::vector<std::string> Order(const std::map<std::string, size_t>& at_work) const;
  size_t n_projects() const { return last_grants_.size(); }

 private:
  uint64_t n_grants_ = 0;
  std::map<std::string, uint64_t> last_grants_;  // number of the last grant, from 1
};

// What one worker is working on, from its messages and our grants. Decides whether it may be
// granted a job now. Not thread-safe.
class WorkerSlot {
 public:
  // `lease_ttl`: after this time a grant that the worker has not mentioned counts as lost.
  explicit WorkerSlot(absl::Duration lease_ttl) : lease_ttl_(lease_ttl) {}

  // The worker's message says that it works on `held`, or on nothing, and whether it is draining.
  void Hear(const std::optional<LeaseRef>& held, bool draining);
  // The worker's message says that its job has ended. The worker is not free until the end is
  // stored.
  void HearEnd(const LeaseRef& lease, bool draining);
  void EndIsStored() { end_pending_ = false; }
  // The lease that the worker claims to hold is not valid.
  void Lost() { held_.reset(); }
  // A job was granted to the worker. Messages that it sent before it got the grant still name no
  // job.
  void Grant(const LeaseRef& lease, SteadyTime now);

  bool MayBeGranted(SteadyTime now) const;
  // The lease that orders are about: the held one, or the granted one that the worker has not
  // mentioned yet.
  const std::optional<LeaseRef>& lease() const { return held_.has_value() ? held_ : granted_; }
  const std::optional<LeaseRef>& held() const { return held_; }
  bool draining() const { return draining_; }

 private:
  void ForgetGrantOf(const LeaseRef& lease);

  const absl::Duration lease_ttl_;
  bool draining_ = false;
  bool end_pending_ = false;
  std::optional<LeaseRef> held_;
  std::optional<LeaseRef> granted_;  // not yet named by a message of the worker
  SteadyTime granted_at_;
};

}  // namespace nerf
