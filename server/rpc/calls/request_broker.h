#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/worker_table.h"
#include "server/rpc/calls/executor.h"

namespace nerf {

// Sends requests on a worker's stream. Thread-safe.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void SendRequest(const v1::ServerRequest& request) = 0;
};

// A request to a worker.
struct BrokerRequest {
  v1::ServerRequest message;          // the broker sets its request_id
  std::optional<std::string> worker;  // unset: any worker
  std::string feature = {};           // of WorkerHello, that the worker needs; empty: none
  size_t max_reply_bytes = size_t{3} << 20;
  absl::Duration timeout = absl::Minutes(10);
  bool is_known = false;  // the server has the answer: no worker is asked, the reply is empty
  // Who asks: one caller may have only a part of a worker's requests. Empty: the server itself.
  std::string caller = {};
};

struct BrokerReply {
  std::string bytes;   // all chunks
  std::string worker;  // id
};

// Sends requests on the workers' streams and assembles their replies. There is no lease: when a
// worker is lost, its open requests fail with Unavailable WORKER_LOST, and callers may retry.
// Thread-safe; calls back without a lock held. The table outlives it; the executor stops before it
// is destroyed.
class RequestBroker {
 public:
  using Done = std::function<void(absl::StatusOr<BrokerReply>)>;

  RequestBroker(const WorkerTable* workers, Executor* executor, RandomSource* random);

  // Adds a worker's stream; it replaces one of an older connection and is ignored if a newer one is
  // attached. The caller detaches it before it ends.
  void Attach(const std::string& worker, uint64_t connection, std::shared_ptr<WorkerLink> link);
  // Removes a stream. Does nothing if it was replaced.
  void Detach(const std::string& worker, const WorkerLink* link);
  // Takes a chunk of a reply. Chunks of unknown or finished requests are dropped.
  void HandleReply(const WorkerLink* from, const v1::WorkerReply& reply);

  // Sends a request to an idle worker, else to the one with the fewest open requests. `done` is
  // called exactly once, on any thread: with the reply, the worker's error, Unavailable
  // WORKER_LOST, ResourceExhausted SIZE_LIMIT, DeadlineExceeded or the status of Cancel. Returns a
  // number for Cancel. Errors, without a call of `done`: Unavailable NO_WORKER, also where none has
  // the feature; ResourceExhausted QUEUE_FULL, of the worker or of the caller's part of it.
  absl::StatusOr<uint64_t> Start(BrokerRequest request, Done done);
  // Ends an open request with `why` and tells its worker to drop it.
  void Cancel(uint64_t number, const absl::Status& why);

 private:
  struct Open {
    std::string worker, caller;
    std::shared_ptr<WorkerLink> link;
    size_t max_reply_bytes = 0;
    std::string bytes;
    Done done;
    Executor::Timer timer;  // set once the request is sent
  };
  struct Attached {
    uint64_t connection = 0;
    std::shared_ptr<WorkerLink> link;
    size_t n_open = 0;
    std::map<std::string, size_t> n_of_caller;  // of the open ones; none is 0
  };

  std::string RequestId(uint64_t number) const;
  // Why PickWorker found none: one that is gone, too old or drained, or none at all.
  std::string WhyNoWorker(const BrokerRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<std::string> PickWorker(const BrokerRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes an open request from the table and returns it.
  std::optional<Open> TakeLocked(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const WorkerTable& workers_;
  Executor& executor_;
  const std::string nonce_;  // makes ids differ from those before a restart
  Mutex mu_;
  uint64_t next_number_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<std::string, Attached> attached_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
