#include "server/queue/worker_table.h"

#include "common/status_macros.h"
#include "server/queue/request_check.h"

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
  }
  return "";
}

absl::StatusOr<uint64_t> WorkerTable::Connect(const WorkerDescription& description) {
  constexpr size_t kMaxTextLength = 256, kMaxMethods = 32;
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
  check.Require(description.methods.size() <= kMaxMethods, "hello.methods",
                "must be at most 32 names");
  for (const std::string& method : description.methods) require_text("hello.methods", method);
  NERF_RETURN_IF_ERROR(check.Result());
  MutexLock lock(mu_);
  std::erase_if(workers_, [this](const auto& item) { return IsGone(item.second); });
  Entry& entry = workers_[description.id];
  entry.description = description;
  entry.connection = next_connection_++;
  entry.connected = true;
  entry.draining = false;
  entry.job.reset();
  entry.last_seen = clock_.Now();
  entry.last_seen_wall = clock_.WallNow();
  return entry.connection;
}

bool WorkerTable::Heard(const std::string& worker, uint64_t connection, bool draining,
                        const std::optional<ResourceKey>& job) {
  MutexLock lock(mu_);
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection != connection) return false;
  Entry& entry = found->second;
  entry.draining = draining;
  entry.job = job;
  entry.last_seen = clock_.Now();
  entry.last_seen_wall = clock_.WallNow();
  if (IsGone(entry)) workers_.erase(found);
  return true;
}

void WorkerTable::Disconnect(const std::string& worker, uint64_t connection) {
  MutexLock lock(mu_);
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection != connection) return;
  found->second.connected = false;
  if (IsGone(found->second)) workers_.erase(found);
}

bool WorkerTable::IsGone(const Entry& entry) const {
  return !entry.connected && (entry.draining || clock_.Now() - entry.last_seen > kForgetAfter);
}

WorkerRecord WorkerTable::ToRecord(const Entry& entry) const {
  WorkerRecord record;
  record.description = entry.description;
  record.last_seen = entry.last_seen_wall;
  record.job = entry.job;
  record.connected = entry.connected;
  if (clock_.Now() - entry.last_seen > ttl_) {
    record.state = WorkerState::kLost;
  } else if (entry.draining) {
    record.state = WorkerState::kDraining;
  } else {
    record.state = entry.job.has_value() ? WorkerState::kBusy : WorkerState::kIdle;
  }
  return record;
}

std::vector<WorkerRecord> WorkerTable::List() const {
  MutexLock lock(mu_);
  std::vector<WorkerRecord> records;
  for (const auto& [id, entry] : workers_) {
    if (!IsGone(entry)) records.push_back(ToRecord(entry));
  }
  return records;
}

std::optional<std::string> WorkerTable::WorkerOf(const ResourceKey& job) const {
  MutexLock lock(mu_);
  for (const auto& [id, entry] : workers_) {
    if (entry.connected && entry.job == job) return id;
  }
  return std::nullopt;
}

}  // namespace nerf
