#include "server/queue/leases/worker_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/leases/grant_policy.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

std::string_view WorkerStateName(WorkerState state) {
  switch (state) {
    case WorkerState::kIdle:
      return "IDLE";
    case WorkerState::kBusy:
      return "BUSY";
    case WorkerState::kDraining:
      return "DRAINING";
    case WorkerState::kLost:
      return "LOST";
    case WorkerState::kUnhealthy:
      return "UNHEALTHY";
  }
  return "";
}

namespace {

// A worker that has not connected since the server started.
WorkerRecord UnknownButDrained(const std::string& id) {
  WorkerRecord record;
  record.description.id = id;
  record.capabilities = std::make_shared<const std::vector<std::string>>();
  record.state = WorkerState::kLost;
  record.drained = true;
  return record;
}

}  // namespace

bool WorkerRecord::AnswersRequests() const {
  switch (state) {
    case WorkerState::kIdle:
    case WorkerState::kBusy:
      return true;
    case WorkerState::kUnhealthy:
      return description.problem.empty();
    case WorkerState::kDraining:
    case WorkerState::kLost:
      return false;
  }
  return false;
}

bool WorkerRecord::Offers(std::string_view capability) const {
  return OffersCapability(*capabilities, capability);
}

absl::Status CheckDescription(const WorkerDescription& description) {
  constexpr size_t kMaxTextLength = 256, kMaxProblemLength = 1024, kMaxMethods = 32;
  RequestCheck check;
  check.RequireId("hello.worker_id", description.id);
  const auto require_text = [&](std::string_view field, const std::string& text) {
    check.Require(text.size() <= kMaxTextLength && IsPlainText(text), field,
                  "must be at most 256 bytes of UTF-8 without control characters");
  };
  require_text("hello.session_id", description.session);
  require_text("hello.device", description.device);
  require_text("hello.device_description", description.device_description);
  require_text("hello.version", description.version);
  require_text("hello.host", description.host);
  require_text("hello.colmap_version", description.colmap_version);
  require_text("hello.ffmpeg_version", description.ffmpeg_version);
  check.Require(description.methods.size() <= kMaxMethods, "hello.methods",
                "must be at most 32 names");
  for (const std::string& method : description.methods) require_text("hello.methods", method);
  check.Require(description.features.size() <= kMaxMethods, "hello.features",
                "must be at most 32 names");
  for (const std::string& feature : description.features) require_text("hello.features", feature);
  check.Require(description.problem.size() <= kMaxProblemLength && IsPlainText(description.problem),
                "hello.problem", "must be at most 1024 bytes of UTF-8 without control characters");
  return check.Result();
}

absl::StatusOr<uint64_t> WorkerTable::Connect(const WorkerDescription& description) {
  NERF_RETURN_IF_ERROR(CheckDescription(description));
  MutexLock lock(mu_);
  list_.reset();
  ForgetGone();
  if (!workers_.contains(description.id) && !ForgetOneOfMany()) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format("{} workers are connected already", kMaxWorkers)),
        reason::kQuotaExceeded, {{"limit", "workers"}, {"max", fmt::format("{}", kMaxWorkers)}});
  }
  Entry& entry = workers_[description.id];
  if (entry.replaced_sessions.contains(description.session)) {
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "another process has taken over as worker {}: two use one cache folder's "
                          "id",
                          description.id)),
                      reason::kWorkerReplaced);
  }
  const std::string& before = entry.description.session;
  if (!before.empty() && before != description.session) {
    constexpr size_t kMaxReplaced = 64;  // an older one that comes back then replaces the newer one
    if (entry.replaced_sessions.size() >= kMaxReplaced) entry.replaced_sessions.clear();
    entry.replaced_sessions.insert(before);
  }
  entry.description = description;
  entry.capabilities = std::make_shared<const std::vector<std::string>>(description.Capabilities());
  entry.connection = next_connection_++;
  entry.connected = true;
  entry.draining = false;
  entry.job.reset();
  entry.last_seen = clock_.Now();
  entry.last_seen_wall = clock_.WallNow();
  return entry.connection;
}

bool WorkerTable::Heard(const std::string& worker, uint64_t connection, bool draining,
                        const std::optional<ResourceKey>& job, bool follows) {
  MutexLock lock(mu_);
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection != connection) return false;
  Entry& entry = found->second;
  const bool was_lost = clock_.Now() - entry.last_seen > ttl_;
  if (was_lost ||
      std::tie(entry.draining, entry.job, entry.follows) != std::tie(draining, job, follows)) {
    list_.reset();
  }
  entry.draining = draining;
  entry.job = job;
  entry.follows = follows;
  entry.last_seen = clock_.Now();
  entry.last_seen_wall = clock_.WallNow();
  if (IsGone(entry)) ForgetGone();
  return true;
}

void WorkerTable::Disconnect(const std::string& worker, uint64_t connection) {
  MutexLock lock(mu_);
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection != connection) return;
  list_.reset();
  found->second.connected = false;
  if (IsGone(found->second)) ForgetGone();
}

void WorkerTable::ForgetGone() {
  for (auto it = workers_.begin(); it != workers_.end();) {
    if (!IsGone(it->second)) {
      ++it;
      continue;
    }
    health_.Forget(it->first);
    it = workers_.erase(it);
  }
}

bool WorkerTable::ForgetOneOfMany() {
  if (workers_.size() < kMaxWorkers) return true;
  auto oldest = workers_.end();
  for (auto it = workers_.begin(); it != workers_.end(); ++it) {
    const bool is_older =
        oldest == workers_.end() || it->second.last_seen < oldest->second.last_seen;
    if (!it->second.connected && is_older) oldest = it;
  }
  if (oldest == workers_.end()) return false;
  health_.Forget(oldest->first);
  workers_.erase(oldest);
  return true;
}

void WorkerTable::EngineDied(const std::string& worker, const ResourceKey& job) {
  MutexLock lock(mu_);
  list_.reset();
  const auto n_paused = [&] {
    mu_.AssertHeld();
    return health_.Avoids(worker).size() + health_.IsUnhealthy(worker);
  };
  const size_t n_before = n_paused();
  health_.EngineDied(worker, job, clock_.Now());
  if (n_paused() == n_before) return;
  LogWarning(health_.IsUnhealthy(worker) ? "worker is unhealthy" : "worker avoids a project",
             {{"worker", worker},
              {"project", job.project},
              {"why", health_.Explain(worker, clock_.Now())}});
}

void WorkerTable::Worked(const std::string& worker) {
  MutexLock lock(mu_);
  if (!health_.Avoids(worker).empty()) list_.reset();
  health_.Worked(worker);
}

bool WorkerTable::MayTakeJob(const std::string& worker, const std::string& project) const {
  MutexLock lock(mu_);
  const auto found = workers_.find(worker);
  const bool has_problem = found != workers_.end() && !found->second.description.problem.empty();
  return !drained_.contains(worker) && !has_problem &&
         health_.MayTakeJob(worker, project, clock_.Now());
}

bool WorkerTable::AnotherOffers(const std::string& project, std::string_view capability,
                                const std::set<std::string>& tried) const {
  MutexLock lock(mu_);
  for (const auto& [id, entry] : workers_) {
    const bool takes_jobs = entry.connected && !entry.draining && !drained_.contains(id) &&
                            entry.description.problem.empty() && !health_.IsUnhealthy(id) &&
                            !health_.Avoids(id).contains(project) &&
                            clock_.Now() - entry.last_seen <= ttl_;
    if (takes_jobs && !tried.contains(id) && OffersCapability(*entry.capabilities, capability)) {
      return true;
    }
  }
  return false;
}

bool WorkerTable::IsGone(const Entry& entry) const {
  return !entry.connected && (entry.draining || clock_.Now() - entry.last_seen > kForgetAfter);
}

WorkerRecord WorkerTable::ToRecord(const Entry& entry) const {
  WorkerRecord record;
  record.description = entry.description;
  record.capabilities = entry.capabilities;
  record.last_seen = entry.last_seen_wall;
  record.job = entry.job;
  record.follows = entry.follows;
  record.connected = entry.connected;
  record.drained = drained_.contains(record.description.id);
  record.avoids = health_.Avoids(record.description.id);
  if (clock_.Now() - entry.last_seen > ttl_) {
    record.state = WorkerState::kLost;
  } else if (!entry.description.problem.empty()) {
    record.state = WorkerState::kUnhealthy;
    record.state_message = entry.description.problem;
  } else if (entry.draining || record.drained) {
    record.state = WorkerState::kDraining;
  } else if (health_.IsUnhealthy(record.description.id)) {
    record.state = WorkerState::kUnhealthy;
    record.state_message = health_.Explain(record.description.id, clock_.Now());
  } else {
    record.state = entry.job.has_value() ? WorkerState::kBusy : WorkerState::kIdle;
    record.state_message = health_.Explain(record.description.id, clock_.Now());
  }
  return record;
}

WorkerList WorkerTable::List() const {
  MutexLock lock(mu_);
  const SteadyTime now = clock_.Now();
  if (list_ == nullptr || now - list_time_ >= kListAge) {
    list_ = std::make_shared<const std::vector<WorkerRecord>>(MakeList());
    list_time_ = now;
  }
  return list_;
}

std::vector<WorkerRecord> WorkerTable::MakeList() const {
  std::vector<WorkerRecord> records;
  for (const auto& [id, entry] : workers_) {
    if (!IsGone(entry)) records.push_back(ToRecord(entry));
  }
  const size_t n_known = records.size();
  for (const std::string& id : drained_) {
    if (const auto found = workers_.find(id); found == workers_.end() || IsGone(found->second)) {
      records.push_back(UnknownButDrained(id));
    }
  }
  if (records.size() > n_known) {
    std::sort(records.begin(), records.end(), [](const WorkerRecord& a, const WorkerRecord& b) {
      return a.description.id < b.description.id;
    });
  }
  return records;
}

void WorkerTable::SetDrained(const std::string& worker, bool drained) {
  MutexLock lock(mu_);
  list_.reset();
  if (drained) {
    drained_.insert(worker);
  } else {
    drained_.erase(worker);
  }
}

std::optional<WorkerRecord> WorkerTable::Find(const std::string& worker) const {
  MutexLock lock(mu_);
  const auto found = workers_.find(worker);
  if (found != workers_.end() && !IsGone(found->second)) return ToRecord(found->second);
  if (drained_.contains(worker)) return UnknownButDrained(worker);
  return std::nullopt;
}

std::optional<std::string> WorkerTable::WorkerOf(const ResourceKey& job) const {
  MutexLock lock(mu_);
  for (const auto& [id, entry] : workers_) {
    if (entry.connected && entry.job == job) return id;
  }
  return std::nullopt;
}

}  // namespace nerf
