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
#include "server/queue/worker_table.h"
#include "server/rpc/executor.h"

namespace nerf {

// The sending half of a worker's stream. Thread-safe.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void SendRequest(const v1::ServerRequest& request) = 0;
};

// Something that a worker shall do and answer.
struct BrokerRequest {
  v1::ServerRequest message;          // with its action; the broker sets the id
  std::optional<std::string> worker;  // the one that must do it; otherwise any
  size_t max_reply_bytes = size_t{3} << 20;
  absl::Duration timeout = absl::Minutes(10);
};

struct BrokerReply {
  std::string bytes;   // the pieces put together
  std::string worker;  // id
};

// Sends requests down the workers' streams and gathers the answers that come up in pieces. Holds no
// lease: a worker that is lost fails what it owed with Unavailable WORKER_LOST, and the caller may
// try again. Thread-safe; calls back without locks held. The table outlives it; the executor stops
// before it ends.
class RequestBroker {
 public:
  using Done = std::function<void(absl::StatusOr<BrokerReply>)>;

  RequestBroker(const WorkerTable* workers, Executor* executor, RandomSource* random);

  // A worker's stream is there, instead of one of an older connection; beside one of a newer
  // connection it is not used. The caller detaches it before it ends.
  void Attach(const std::string& worker, uint64_t connection, std::shared_ptr<WorkerLink> link);
  // It is gone. A link that was replaced changes nothing.
  void Detach(const std::string& worker, const WorkerLink* link);
  // A piece of an answer. Pieces of requests that are not known (any more) are dropped.
  void HandleReply(const WorkerLink* from, const v1::WorkerReply& reply);

  // Sends a request to an idle worker, else to the one that owes the fewest answers. `done` is
  // called exactly once, from any thread: with the answer, the worker's own error, Unavailable
  // WORKER_LOST, ResourceExhausted SIZE_LIMIT, DeadlineExceeded, or what Cancel says.
  // Returns a number for Cancel. Errors (and then `done` is never called): Unavailable NO_WORKER;
  // ResourceExhausted QUEUE_FULL.
  absl::StatusOr<uint64_t> Start(BrokerRequest request, Done done);
  // Ends a request that is still open with `why` and tells its worker to forget it.
  void Cancel(uint64_t number, const absl::Status& why);

 private:
  struct Open {
    std::string worker;
    std::shared_ptr<WorkerLink> link;
    size_t max_reply_bytes = 0;
    std::string bytes;
    Done done;
    Executor::Timer timer;  // none until the request is on its way
  };
  struct Attached {
    uint64_t connection = 0;
    std::shared_ptr<WorkerLink> link;
    size_t n_open = 0;
  };

  std::string RequestId(uint64_t number) const;
  std::optional<std::string> PickWorker(const std::optional<std::string>& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes an open request out of the table.
  std::optional<Open> TakeLocked(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const WorkerTable& workers_;
  Executor& executor_;
  const std::string nonce_;  // makes ids differ from those of an earlier server
  Mutex mu_;
  uint64_t next_number_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<std::string, Attached> attached_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
