#include "server/replica/leader_lease.h"

#include <utility>

#include "common/logging.h"

namespace nerf {

LeaderLease::LeaderLease(const Options& options, OpenTable open_table, uint64_t term,
                         SteadyTime began, std::function<bool()> is_broken, OnLost on_lost)
    : options_(options),
      open_table_(std::move(open_table)),
      term_(term),
      is_broken_(std::move(is_broken)),
      on_lost_(std::move(on_lost)) {
  ValidUntil(began + options_.duration);
  thread_ = std::thread([this] { Run(); });
}

LeaderLease::~LeaderLease() { Stop(); }

void LeaderLease::ValidUntil(SteadyTime time) {
  valid_until_ns_ = absl::ToInt64Nanoseconds(time - SteadyTime());
}

bool LeaderLease::valid() const {
  return absl::ToInt64Nanoseconds(clock_.Now() - SteadyTime()) < valid_until_ns_ && !is_broken_();
}

void LeaderLease::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void LeaderLease::Resign() {
  Stop();
  ValidUntil(SteadyTime());
  if (table_ == nullptr) return;
  if (const absl::Status status = table_->Resign(term_); !status.ok()) {
    LogWarning("the lease was not handed over; it passes", {{"error", status.ToString()}});
  }
}

bool LeaderLease::Sleep(absl::Duration duration) {
  const SteadyTime end = clock_.Now() + duration;
  MutexLock lock(mu_);
  while (!stopping_ && clock_.Now() < end) wake_.WaitFor(mu_, end - clock_.Now());
  return !stopping_;
}

bool LeaderLease::Renew(absl::Duration* pause) {
  *pause = options_.retry_interval;
  if (is_broken_()) {
    on_lost_("its store takes no more writes");
    return false;
  }
  absl::Status status;
  if (table_ == nullptr) {
    auto table = open_table_();
    status = table.status();
    if (table.ok()) table_ = *std::move(table);
  }
  if (status.ok()) {
    const SteadyTime before = clock_.Now();
    const absl::StatusOr<bool> renewed = table_->Renew(term_, options_.duration);
    status = renewed.status();
    if (renewed.ok() && !*renewed) {
      ValidUntil(SteadyTime());
      on_lost_("another term has begun");
      return false;
    }
    if (renewed.ok()) {
      ValidUntil(before + options_.duration);
      has_warned_ = false;
      *pause = options_.renew_interval;
    }
  }
  if (status.ok()) return true;
  table_.reset();
  if (!std::exchange(has_warned_, true)) {
    LogWarning("the lease cannot be renewed", {{"error", status.ToString()}});
  }
  return true;
}

void LeaderLease::Run() {
  absl::Duration pause;
  do {
    if (!Renew(&pause)) return;
  } while (Sleep(pause));
}

}  // namespace nerf
