#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/grant_policy.h"
#include "server/queue/lease_table.h"
#include "server/rpc/service_context.h"

namespace nerf {

// What the server makes of one worker's stream, without the stream: messages go in, answers come
// out through `send`.
//
//   hello -> attach (leases that the worker does not name are lost) -> report, report, ...
//   report of work:  renew the lease; answer with its TTL, CANCEL or ABANDON
//   report of an end: store it; answer with finished_acknowledged
//   no job:          grant the oldest queued one of its methods, now or as soon as there is one
//
// Thread-safe. `send` runs with the session's lock held and must not call back. Queue, table and
// metrics of `services` outlive it.
class WorkerSession {
 public:
  using Send = std::function<void(v1::SynchronizeResponse)>;

  WorkerSession(const ServiceContext& services, Send send)
      : services_(services), send_(std::move(send)), slot_(services.times.lease_ttl) {}
  ~WorkerSession();

  // Takes the hello of a stream's first message, which is then handled as every other. `on_work`
  // runs, on any thread, when HandleWork should be called. Errors end the stream: InvalidArgument
  // FIELD_INVALID; Unavailable when the store refuses.
  absl::Status Open(const v1::SynchronizeRequest& message, std::function<void()> on_work);

  // Handles a message. Requires: Open was OK. Errors end the stream: InvalidArgument FIELD_INVALID;
  // Aborted when a newer stream of the worker has taken over.
  absl::Status HandleMessage(const v1::SynchronizeRequest& message);

  // Grants or takes away what the queue has changed since the last message.
  void HandleWork();

  // The stream is over: nothing is sent and nothing granted any more. Of messages that are handled
  // after it only counts that the worker leaves.
  void Close();

  // The worker, once it has said hello.
  std::optional<std::string> worker() const;

  // Its connection's number in the worker table, 0 before hello: the newest of a worker counts.
  uint64_t connection() const;

  // True when nothing was heard for longer than a lease lives.
  bool silent() const;

 private:
  absl::Status HandleReport(const LeaseRef& lease, const v1::JobReport& report,
                            v1::SynchronizeResponse* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status StoreEnd(const LeaseRef& lease, const v1::JobReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes what the worker says that it works on, or that has ended: `lease`.
  void HearOf(const v1::SynchronizeRequest& message, const std::optional<LeaseRef>& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleMetrics(const v1::WorkerMetrics& metrics) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts a grant into the response, when the worker is free and a job waits.
  absl::Status Grant(v1::SynchronizeResponse* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetGauges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendIntervals(v1::SynchronizeResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ServiceContext& services_;
  const Send send_;
  mutable Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  WorkerDescription description_ ABSL_GUARDED_BY(mu_);
  uint64_t connection_ ABSL_GUARDED_BY(mu_) = 0;  // of the worker table; 0 before hello
  std::unique_ptr<WorkSubscription> subscription_ ABSL_GUARDED_BY(mu_);
  SteadyTime last_heard_ ABSL_GUARDED_BY(mu_);
  WorkerSlot slot_ ABSL_GUARDED_BY(mu_);
  bool has_gauges_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nerf
