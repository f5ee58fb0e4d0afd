#include "server/queue/state/request_log.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/packed_strings.h"

namespace nerf {

absl::StatusOr<std::optional<std::string>> RequestLog::Find(const RequestRecord& request) const {
  if (request.request_id.empty()) return std::optional<std::string>();
  const auto found = requests_.find({request.project, request.request_id});
  if (found == requests_.end()) return std::optional<std::string>();
  const RequestRecord& earlier = found->second;
  if (earlier.kind != request.kind || earlier.fingerprint != request.fingerprint) {
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "request_id {} was used for another request", request.request_id)),
                      reason::kRequestIdReused);
  }
  return std::optional<std::string>(earlier.resource_id);
}

void RequestLog::Remember(const RequestRecord& request) {
  if (request.request_id.empty()) return;
  const std::pair key(request.project, request.request_id);
  requests_[key] = request;
  order_.emplace(request.create_time, key);
  // About 650 bytes each. The store has them until they are old, so a restart reads all again.
  constexpr size_t kMaxRequests = 200'000;
  while (order_.size() > kMaxRequests) {
    const auto oldest = order_.begin();
    const auto found = requests_.find(oldest->second);
    if (found != requests_.end() && found->second.create_time == oldest->first) {
      requests_.erase(found);
    }
    order_.erase(oldest);
  }
}

RequestRecord RequestLog::RecordOfDeletedJob(const Job& job, absl::Time now) {
  // Clients' request ids are UUIDs, so this one cannot be theirs.
  return {RequestRecord::Kind::kDeletedJob,
          job.key.project,
          "deleted/" + job.key.id,
          job.key.id,
          PackStrings({std::to_string(job.lease.epoch), std::to_string(job.last_event_sequence)}),
          now};
}

void RequestLog::CountOnFromDeletedJob(Job& job) const {
  const auto found = requests_.find({job.key.project, "deleted/" + job.key.id});
  if (found == requests_.end()) return;
  const auto counts = UnpackStrings(found->second.fingerprint);
  uint64_t epoch = 0, sequence = 0;
  if (!counts.has_value() || counts->size() != 2 || !absl::SimpleAtoi((*counts)[0], &epoch) ||
      !absl::SimpleAtoi((*counts)[1], &sequence)) {
    return;
  }
  job.lease.epoch = epoch;
  job.last_event_sequence += sequence;
}

bool RequestLog::VisitSlice(size_t n, Key* from,
                            const std::function<void(const RequestRecord&)>& visit) const {
  auto it = requests_.upper_bound(*from);
  for (; n > 0 && it != requests_.end(); --n, ++it) {
    *from = it->first;
    visit(it->second);
  }
  return it != requests_.end();
}

bool RequestLog::ForgetSliceOf(size_t n, Key* from, absl::Time before) {
  const std::string project = from->first;
  auto it = requests_.upper_bound(*from);
  for (; n > 0 && it != requests_.end() && it->first.first == project; --n) {
    *from = it->first;
    it = it->second.create_time < before ? requests_.erase(it) : std::next(it);
  }
  return it != requests_.end() && it->first.first == project;
}

bool RequestLog::ForgetSlice(size_t n, absl::Time before) {
  for (; n > 0; --n) {
    const auto oldest = order_.begin();
    if (oldest == order_.end() || oldest->first >= before) return false;
    const auto found = requests_.find(oldest->second);
    if (found != requests_.end() && found->second.create_time < before) requests_.erase(found);
    order_.erase(oldest);
  }
  return true;
}

}  // namespace nerf
