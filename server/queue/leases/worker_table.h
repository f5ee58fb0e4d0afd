#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "server/queue/kinds/worker_description.h"
#include "server/queue/leases/worker_health.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

enum class WorkerState { kIdle, kBusy, kDraining, kLost, kUnhealthy };

// "IDLE", "BUSY", "DRAINING", "LOST", "UNHEALTHY".
std::string_view WorkerStateName(WorkerState state);

struct WorkerRecord {
  WorkerDescription description;
  WorkerState state = WorkerState::kIdle;
  std::string state_message;       // why it is UNHEALTHY or avoids projects, for people, or empty
  std::set<std::string> avoids;    // projects on whose jobs its engine has died (WorkerHealth)
  std::optional<ResourceKey> job;  // the one that it works on
  bool follows = false;            // as a rank other than 0, which renders nothing meanwhile
  bool connected = false;          // a stream is open; a worker stays known without one
  bool drained = false;            // by an operator

  absl::Time last_seen = absl::InfinitePast();
  std::shared_ptr<const std::vector<std::string>> capabilities;  // of its description; not null

  // Whether it answers requests. An unhealthy worker may, unless it has a problem.
  bool AnswersRequests() const;
  // As OffersCapability.
  bool Offers(std::string_view capability) const;
};

// Records at one time, by id; never null.
using WorkerList = std::shared_ptr<const std::vector<WorkerRecord>>;

// What Connect refuses of a description. Errors: InvalidArgument FIELD_INVALID.
absl::Status CheckDescription(const WorkerDescription& description);

// The workers that have connected since this server started, for lists and for routing renders. It
// does not decide about leases; the lease epoch does. A draining worker is forgotten when its
// stream ends, a silent one after kForgetAfter. Thread-safe. The clock outlives it.
class WorkerTable {
 public:
  static constexpr absl::Duration kForgetAfter = absl::Hours(6);
  // At this number a new worker takes the place of the one that was silent for the longest time.
  static constexpr size_t kMaxWorkers = 10'000;
  static constexpr absl::Duration kListAge = absl::Milliseconds(100);

  // A worker is LOST if it has sent nothing for `ttl`.
  WorkerTable(Clock* clock, absl::Duration ttl) : clock_(*clock), ttl_(ttl) {}

  // Registers a connection. Returns its number; a newer connection of the same worker makes older
  // numbers stale. A connection of another process (session) replaces the process before it for
  // good. Errors: InvalidArgument FIELD_INVALID; FailedPrecondition WORKER_REPLACED for a process
  // that has been replaced; ResourceExhausted QUOTA_EXCEEDED if kMaxWorkers are connected.
  absl::StatusOr<uint64_t> Connect(const WorkerDescription& description);
  // A message of the worker was handled, possibly after its stream ended. False when `connection`
  // is stale: the caller ends that stream with ABORTED.
  bool Heard(const std::string& worker, uint64_t connection, bool draining,
             const std::optional<ResourceKey>& job, bool follows = false);
  // The stream ended. A stale connection changes nothing.
  void Disconnect(const std::string& worker, uint64_t connection);

  // As WorkerHealth.
  void EngineDied(const std::string& worker, const ResourceKey& job);
  void Worked(const std::string& worker);
  // False for a drained worker, one with a problem, and one whose pause is not over, for all jobs
  // or for those of the project.
  bool MayTakeJob(const std::string& worker, const std::string& project = "") const;
  // Whether a worker other than `tried` is connected, takes jobs of the project and offers
  // `capability`.
  bool AnotherOffers(const std::string& project, std::string_view capability,
                     const std::set<std::string>& tried) const;

  // A drained worker takes no jobs or requests, and stays listed.
  void SetDrained(const std::string& worker, bool drained);

  // All readers share one list until a worker changes, or for kListAge: calls ask for it a thousand
  // times a second. Only `last_seen`, and what follows from it, may be so old.
  WorkerList List() const;
  std::optional<WorkerRecord> Find(const std::string& worker) const;
  // The connected worker that reports to train `job`.
  std::optional<std::string> WorkerOf(const ResourceKey& job) const;

 private:
  struct Entry {
    WorkerDescription description;
    std::shared_ptr<const std::vector<std::string>> capabilities;
    uint64_t connection = 0;
    bool connected = false;
    bool draining = false;
    std::optional<ResourceKey> job;
    bool follows = false;
    std::set<std::string> replaced_sessions;
    SteadyTime last_seen;
    absl::Time last_seen_wall;
  };
  WorkerRecord ToRecord(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<WorkerRecord> MakeList() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsGone(const Entry& entry) const;
  void ForgetGone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Room for one more. False if all are connected.
  bool ForgetOneOfMany() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  const absl::Duration ttl_;
  mutable Mutex mu_;
  std::map<std::string, Entry> workers_ ABSL_GUARDED_BY(mu_);
  WorkerHealth health_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> drained_ ABSL_GUARDED_BY(mu_);  // ids
  uint64_t next_connection_ ABSL_GUARDED_BY(mu_) = 1;
  mutable WorkerList list_ ABSL_GUARDED_BY(mu_);  // null after a change
  mutable SteadyTime list_time_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
