#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/queue/job.h"
#include "server/queue/lease.h"

namespace nerf {

// Who asks for a job.
struct GrantRequest {
  std::string worker = {};  // id
  // What it offers (CapabilityOf); empty: not told, so all.
  std::vector<std::string> capabilities = {};
};

// True when something that offers `offered` can do what needs `wanted`. An empty list has not been
// told and can do all.
bool OffersCapability(const std::vector<std::string>& offered, std::string_view wanted);

// What one worker is occupied with, as its messages and our grants say: whether it may be granted a
// job now. Not thread-safe.
class WorkerSlot {
 public:
  // `lease_ttl`: how long a grant may be on its way before the worker is asked anew.
  explicit WorkerSlot(absl::Duration lease_ttl) : lease_ttl_(lease_ttl) {}

  // The worker has spoken: it works on `held`, or on nothing, and leaves when `draining`.
  void Hear(const std::optional<LeaseRef>& held, bool draining);
  // It says that its job has ended. Until the end is stored it is not free.
  void HearEnd(const LeaseRef& lease, bool draining);
  void EndIsStored() { end_pending_ = false; }
  // It does not hold what it says it holds.
  void Lost() { held_.reset(); }
  // A job was granted to it. Messages that crossed the grant on the way still say that it has none.
  void Grant(const LeaseRef& lease, SteadyTime now);

  bool MayBeGranted(SteadyTime now) const;
  // What it works on, or what it was granted and has not mentioned yet: where orders go.
  const std::optional<LeaseRef>& lease() const { return held_.has_value() ? held_ : granted_; }
  const std::optional<LeaseRef>& held() const { return held_; }
  bool draining() const { return draining_; }

 private:
  void ForgetGrantOf(const LeaseRef& lease);

  const absl::Duration lease_ttl_;
  bool draining_ = false;
  bool end_pending_ = false;
  std::optional<LeaseRef> held_;
  std::optional<LeaseRef> granted_;  // no report has named it yet
  SteadyTime granted_at_;
};

}  // namespace nerf
