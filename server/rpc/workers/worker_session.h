#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/grant_policy.h"
#include "server/queue/leases/lease_table.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// The server's side of one worker's stream, without gRPC: HandleMessage takes messages, `send`
// sends the responses.
//
//   hello -> attach (its other leases are revoked) -> report, report, ...
//   report of work:  renew the lease; answer with its TTL, CANCEL or ABANDON
//   report of an end: store it, then answer with finished_acknowledged
//   no job:          grant a queued job, now or as soon as there is one
//
// No call waits for the store. Attach, end and grant have to be stored: each is a task for `defer`,
// and is answered when it is done. Heartbeats continue meanwhile.
//
// Thread-safe. `send` runs with the session's lock held and must not call back. `defer` runs
// without locks held; the session must live until its tasks are done. The members of `services`
// outlive it.
class WorkerSession {
 public:
  using Send = std::function<void(v1::SynchronizeResponse)>;
  using Task = std::function<void()>;
  // Runs a task that may wait for the store: at once, or on another thread.
  using Defer = std::function<void(Task)>;

  WorkerSession(const ServiceContext& services, Send send, Defer defer)
      : services_(services),
        send_(std::move(send)),
        defer_(std::move(defer)),
        slot_(services.times.lease_ttl) {}
  ~WorkerSession();

  // What Open refuses of a first message. Errors: InvalidArgument FIELD_INVALID.
  static absl::Status CheckFirst(const v1::SynchronizeRequest& message);
  // Reads the hello of a stream's first message; then call HandleMessage with the same message.
  // `on_work` runs, on any thread, when HandleWork should be called. Errors end the stream:
  // InvalidArgument FIELD_INVALID.
  absl::Status Open(const v1::SynchronizeRequest& message, std::function<void()> on_work);

  // Handles a message. Requires: Open was OK. Errors end the stream: InvalidArgument FIELD_INVALID;
  // Aborted when a newer stream of the worker has taken over.
  absl::Status HandleMessage(const v1::SynchronizeRequest& message);

  // Sends what the queue has changed since the last message: a grant, a cancel or a lost lease.
  void HandleWork();

  // The stream has ended: nothing is sent or granted after this. Of later messages only `draining`
  // is used.
  void Close();

  // The worker's id; nullopt before its hello.
  std::optional<std::string> worker() const;

  // Number of the connection in the worker table, where the highest number of a worker is current;
  // 0 before its hello.
  uint64_t connection() const;

  // True if the last message is older than the lease TTL.
  bool silent() const;

 private:
  // The end of a job, as its worker reports it.
  struct JobEnd {
    v1::JobReport::Phase phase = v1::JobReport::PHASE_UNSPECIFIED;
    JobOutcome outcome;
    bool shared_engine = false;
    QueueReason release_reason = QueueReason::kWorkerDrained;
    std::optional<uint32_t> lost_rank;  // with kWorkerLost
  };
  static absl::StatusOr<JobEnd> ParseEnd(const v1::JobReport& report);

  absl::Status Handle(const v1::SynchronizeRequest& message, std::vector<Task>* tasks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status HandleWorkReport(const LeaseRef& lease, const v1::JobReport& report,
                                v1::SynchronizeResponse* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status HandleEndReport(const LeaseRef& lease, const v1::JobReport& report,
                               std::vector<Task>* tasks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes what the worker's rank tells the others, and answers once all have told.
  absl::Status HandleRankText(const v1::RankText& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnswerRankText(const absl::StatusOr<std::vector<std::string>>& texts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Updates slot_ with the lease that the worker's message names as running or ended.
  void HearOf(const v1::SynchronizeRequest& message, const std::optional<LeaseRef>& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of a message with metrics.
  void HandleMetrics(const v1::SynchronizeRequest& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Completes the curves of a job whose worker has connected again.
  absl::Status HandleRecent(const LeaseRef& lease, const v1::JobReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds a task that requests a job from the queue, if the worker is free and no such task is
  // running.
  void WantGrant(std::vector<Task>* tasks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetGauges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendIntervals(v1::SynchronizeResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The tasks. They wait for the store without holding the session's lock.
  void Attach() ABSL_LOCKS_EXCLUDED(mu_);
  void StoreEnd(const LeaseRef& lease, const JobEnd& end) ABSL_LOCKS_EXCLUDED(mu_);
  void Grant() ABSL_LOCKS_EXCLUDED(mu_);
  // One try of Grant. Returns false if another try may find a job.
  bool TryGrant() ABSL_LOCKS_EXCLUDED(mu_);
  void RunLater(std::vector<Task> tasks) ABSL_LOCKS_EXCLUDED(mu_);

  const ServiceContext& services_;
  const Send send_;
  const Defer defer_;
  mutable Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  WorkerDescription description_ ABSL_GUARDED_BY(mu_);
  uint64_t connection_ ABSL_GUARDED_BY(mu_) = 0;  // of the worker table; 0 before hello
  std::unique_ptr<WorkSubscription> subscription_ ABSL_GUARDED_BY(mu_);
  SteadyTime last_heard_ ABSL_GUARDED_BY(mu_);
  WorkerSlot slot_ ABSL_GUARDED_BY(mu_);
  bool has_gauges_ ABSL_GUARDED_BY(mu_) = false;
  // Lease and number of the text to which the worker waits for those of the other ranks.
  std::optional<std::pair<LeaseRef, uint32_t>> asked_texts_ ABSL_GUARDED_BY(mu_);
  // The leases that the worker named in its hello. Nothing is granted before the queue knows them.
  std::vector<LeaseRef> held_at_hello_ ABSL_GUARDED_BY(mu_);
  bool attached_ ABSL_GUARDED_BY(mu_) = false;
  // Running tasks, at most one of each kind.
  bool attaching_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<LeaseRef> ending_ ABSL_GUARDED_BY(mu_);
  bool granting_ ABSL_GUARDED_BY(mu_) = false;
  bool work_came_ ABSL_GUARDED_BY(mu_) = false;  // work arrived while granting_
};

}  // namespace nerf
