#include "server/rpc/calls/request_broker.h"

#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/messages/rpc_status.h"

namespace nerf {
namespace {

// Limit of open requests per worker: more would only wait.
constexpr size_t kMaxOpenPerWorker = 64;
// The same for one caller, so that others find room.
constexpr size_t kMaxOpenPerCaller = 48;

absl::Status QueueFullError(const char* who, size_t n_open) {
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(who, " ", n_open, " open requests already")),
      reason::kQueueFull);
}

absl::Status NoWorkerError(std::string_view why) {
  return WithReason(absl::UnavailableError(std::string(why)), reason::kNoWorker);
}

bool HasFeatureOf(const BrokerRequest& request, const WorkerRecord& worker) {
  return request.feature.empty() || worker.description.Has(request.feature);
}

v1::ServerRequest CancelMessage(const std::string& request_id) {
  v1::ServerRequest message;
  message.set_request_id(request_id);
  message.set_cancel(true);
  return message;
}

}  // namespace

RequestBroker::RequestBroker(const WorkerTable* workers, Executor* executor, RandomSource* random)
    : workers_(*workers), executor_(*executor), nonce_(NewShortId("q", *random)) {}

std::string RequestBroker::RequestId(uint64_t number) const {
  return absl::StrCat(nonce_, "-", number);
}

void RequestBroker::Attach(const std::string& worker, uint64_t connection,
                           std::shared_ptr<WorkerLink> link) {
  std::shared_ptr<WorkerLink> old;
  {
    MutexLock lock(mu_);
    Attached& attached = attached_[worker];
    if (attached.connection > connection) return;
    old = std::exchange(attached.link, std::move(link));
    attached.connection = connection;
    attached.n_open = 0;
    attached.n_of_caller.clear();
  }
  if (old != nullptr) Detach(worker, old.get());  // fails its open requests
}

void RequestBroker::Detach(const std::string& worker, const WorkerLink* link) {
  std::vector<Open> lost;
  {
    MutexLock lock(mu_);
    const auto found = attached_.find(worker);
    if (found != attached_.end() && found->second.link.get() == link) attached_.erase(found);
    std::vector<uint64_t> numbers;
    for (const auto& [number, open] : open_) {
      if (open.link.get() == link) numbers.push_back(number);
    }
    for (const uint64_t number : numbers) lost.push_back(*TakeLocked(number));
  }
  for (Open& open : lost) {
    open.done(
        WithReason(absl::UnavailableError("the worker was lost; try again"), reason::kWorkerLost));
  }
}

std::optional<RequestBroker::Open> RequestBroker::TakeLocked(uint64_t number) {
  const auto found = open_.find(number);
  if (found == open_.end()) return std::nullopt;
  Open open = std::move(found->second);
  open_.erase(found);
  executor_.Drop(open.timer);
  const auto attached = attached_.find(open.worker);
  if (attached != attached_.end() && attached->second.link == open.link) {
    --attached->second.n_open;
    const auto of_caller = attached->second.n_of_caller.find(open.caller);
    if (--of_caller->second == 0) attached->second.n_of_caller.erase(of_caller);
  }
  return open;
}

std::optional<std::string> RequestBroker::PickWorker(const BrokerRequest& request) {
  if (request.worker.has_value()) {
    if (!attached_.contains(*request.worker)) return std::nullopt;
    const auto record = workers_.Find(*request.worker);
    const bool is_known = record.has_value() && HasFeatureOf(request, *record);
    return is_known || request.feature.empty() ? request.worker : std::nullopt;
  }
  std::optional<std::string> best;
  // Preferred, in this order: healthy, not a follower in a gang, not in training, fewest open
  // requests.
  std::tuple<bool, bool, bool, size_t> best_load;
  const WorkerList workers = workers_.List();
  for (const WorkerRecord& worker : *workers) {
    const auto found = attached_.find(worker.description.id);
    if (found == attached_.end() || !worker.AnswersRequests()) continue;
    if (!HasFeatureOf(request, worker)) continue;
    const bool unhealthy = worker.state == WorkerState::kUnhealthy;
    const std::tuple load(unhealthy, worker.follows, worker.job.has_value(), found->second.n_open);
    if (best.has_value() && best_load <= load) continue;
    best = worker.description.id;
    best_load = load;
  }
  return best;
}

std::string RequestBroker::WhyNoWorker(const BrokerRequest& request) {
  if (request.worker.has_value() && !attached_.contains(*request.worker)) {
    return "the job's worker is not connected";
  }
  const WorkerList workers = workers_.List();
  for (const WorkerRecord& worker : *workers) {
    const bool is_wanted = !request.worker.has_value() || worker.description.id == *request.worker;
    if (is_wanted && worker.AnswersRequests() && attached_.contains(worker.description.id)) {
      return absl::StrCat("worker ", worker.description.id, " of version ",
                          worker.description.version, " lacks the feature ", request.feature,
                          ", which this needs: install a newer nerf-worker");
    }
  }
  for (const WorkerRecord& worker : *workers) {
    if (worker.drained && attached_.contains(worker.description.id)) {
      return absl::StrCat("worker ", worker.description.id,
                          " is drained, and no other one is connected");
    }
    if (!worker.description.problem.empty() && attached_.contains(worker.description.id)) {
      return absl::StrCat("worker ", worker.description.id,
                          " is unhealthy: ", worker.description.problem);
    }
  }
  return "no worker is connected";
}

absl::StatusOr<uint64_t> RequestBroker::Start(BrokerRequest request, Done done) {
  uint64_t number = 0;
  std::shared_ptr<WorkerLink> link;
  {
    MutexLock lock(mu_);
    const std::optional<std::string> worker = PickWorker(request);
    if (!worker.has_value()) return NoWorkerError(WhyNoWorker(request));
    Attached& attached = attached_.at(*worker);
    if (attached.n_open >= kMaxOpenPerWorker) {
      return QueueFullError("the worker has", attached.n_open);
    }
    if (const auto of_caller = attached.n_of_caller.find(request.caller);
        !request.caller.empty() && of_caller != attached.n_of_caller.end() &&
        of_caller->second >= kMaxOpenPerCaller) {
      return QueueFullError("you have", of_caller->second);
    }
    number = next_number_++;
    link = attached.link;
    ++attached.n_open;
    ++attached.n_of_caller[request.caller];
    open_[number] =
        Open{*worker, request.caller, link, request.max_reply_bytes, "", std::move(done), {}};
  }
  request.message.set_request_id(RequestId(number));
  link->SendRequest(request.message);
  // Only after the send: a cancel that arrives before its request would do nothing.
  MutexLock lock(mu_);
  if (const auto open = open_.find(number); open != open_.end()) {
    open->second.timer = executor_.PostAfter(request.timeout, [this, number] {
      Cancel(number, absl::DeadlineExceededError("the worker took too long"));
    });
  }
  return number;
}

void RequestBroker::Cancel(uint64_t number, const absl::Status& why) {
  std::optional<Open> open;
  {
    MutexLock lock(mu_);
    open = TakeLocked(number);
  }
  if (!open.has_value()) return;
  open->link->SendRequest(CancelMessage(RequestId(number)));
  open->done(why);
}

void RequestBroker::HandleReply(const WorkerLink* from, const v1::WorkerReply& reply) {
  const std::string prefix = absl::StrCat(nonce_, "-");
  const std::string& id = reply.request_id();
  if (!id.starts_with(prefix)) return;
  uint64_t number = 0;
  const char* const end = id.data() + id.size();
  if (std::from_chars(id.data() + prefix.size(), end, number).ptr != end) return;

  std::optional<Open> open;
  bool too_large = false;
  {
    MutexLock lock(mu_);
    const auto found = open_.find(number);
    if (found == open_.end() || found->second.link.get() != from) return;
    Open& entry = found->second;
    too_large = entry.bytes.size() + reply.chunk().size() > entry.max_reply_bytes;
    if (!too_large && !reply.has_error()) entry.bytes += reply.chunk();
    if (!too_large && !reply.last()) return;
    open = TakeLocked(number);
  }
  if (too_large) {
    if (!reply.last()) open->link->SendRequest(CancelMessage(id));
    open->done(WithReason(absl::ResourceExhaustedError(absl::StrCat(
                              "the reply is larger than ", open->max_reply_bytes, " bytes")),
                          reason::kSizeLimit));
    return;
  }
  absl::Status error = FromRpcStatus(reply.error());
  if (!error.ok()) {
    open->done(std::move(error));
    return;
  }
  open->done(BrokerReply{std::move(open->bytes), open->worker});
}

}  // namespace nerf
