#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "server/store/postgres/leader_table.h"

namespace nerf {

// The lease of the replica that leads. A thread renews it on a connection of its own, so that no
// long transaction delays it. What the leader commits is guarded by the term alone (PgSession); the
// lease bounds how long a leader that is stopped or cut off answers reads, and how soon it is
// replaced.
class LeaderLease {
 public:
  struct Options {
    absl::Duration duration = absl::Seconds(3);
    absl::Duration renew_interval = absl::Seconds(1);
    absl::Duration retry_interval = absl::Milliseconds(200);  // without PostgreSQL
  };
  using OpenTable = std::function<absl::StatusOr<std::unique_ptr<LeaderTable>>()>;
  // Is called once, on the lease's thread, with the reason: this process leads no more. It should
  // end the process.
  using OnLost = std::function<void(const std::string& why)>;

  // The lease of `term` lasts for `duration` from `began` on. `is_broken` tells from any thread
  // that the store takes no more writes, which loses the lease, too.
  LeaderLease(const Options& options, OpenTable open_table, uint64_t term, SteadyTime began,
              std::function<bool()> is_broken, OnLost on_lost);
  // Stops to renew.
  ~LeaderLease();
  LeaderLease(const LeaderLease&) = delete;
  LeaderLease& operator=(const LeaderLease&) = delete;

  // Whether no other replica can lead yet. It is true again when PostgreSQL comes back and nobody
  // has taken over meanwhile. Thread-safe and without locks.
  bool valid() const;

  // Stops to renew and lets another replica lead at once. Without PostgreSQL it does so when the
  // lease is over.
  void Resign() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run();
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);
  // Renews once; sets how long to wait. False when the lease is lost.
  bool Renew(absl::Duration* pause);
  bool Sleep(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mu_);
  void ValidUntil(SteadyTime time);

  const Options options_;
  const OpenTable open_table_;
  const uint64_t term_;
  const std::function<bool()> is_broken_;
  const OnLost on_lost_;
  const RealClock clock_;
  std::atomic<int64_t> valid_until_ns_;  // of the steady clock
  // Of the thread; of Resign once it has ended.
  std::unique_ptr<LeaderTable> table_;
  bool has_warned_ = false;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace nerf
