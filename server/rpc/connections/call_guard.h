#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "common/clock.h"
#include "common/mutex.h"
#include "server/rpc/connections/connection_table.h"

namespace nerf {

// Closes connections that flood a server with calls: a client that cancels each call as soon as it
// is made may make any number of them. gRPC 1.51 reads such calls faster than it hands them to
// handlers, keeps 10 KiB for each, and may run no handler at all meanwhile. So the guard counts
// calls where gRPC reads them, and looks for their senders on a thread of its own. Thread-safe.
class CallGuard {
 public:
  // Both outlive it.
  CallGuard(ConnectionTable* connections, const Clock* clock);
  ~CallGuard();
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  // Counts the calls of a server that has it as its allocator. The guard outlives the server.
  std::unique_ptr<grpc::ContextAllocator> MakeCounter();
  // A call has reached its handler; its handler's context is gone.
  void Began() { --n_waiting_; }
  void Ended() { ++n_waiting_; }

  // More calls than this wait for a thread: no connection should be accepted now.
  static constexpr int64_t kMaxWaiting = 256;
  bool is_crowded() const { return n_waiting_ > kMaxWaiting; }
  // A call was refused before it could reach a handler.
  void Refused();
  // A call has ended before its first message had come, as those of a closed connection do.
  void EndedEmpty();
  // Whether more than kMaxEmpty such calls a second come and go for a while. They take whole cores,
  // and come back with the connections that are closed for them: new ones should come slowly.
  bool is_wasted();
  static constexpr double kMaxEmpty = 4000;
  // Counts the streams of all connections soon, for the table, and closes those with too many.
  void Look();

 private:
  class Counter;
  void Run();
  // Adds to n_empty_ and returns it.
  double AddEmpty(double n);
  // Waits for the next Look. False at the end.
  bool AwaitLook();

  ConnectionTable& connections_;
  const Clock& clock_;
  // Calls that gRPC has read, less those that handlers have. Below 0 for a moment while calls end,
  // and by the synchronous calls of gRPC's own services, which no allocator counts.
  std::atomic<int64_t> n_waiting_{0};
  std::atomic<bool> is_called_{false};  // by a crowd, since the last look
  std::atomic<uint64_t> n_refused_{0};
  Mutex empty_mu_;
  double n_empty_ ABSL_GUARDED_BY(empty_mu_) = 0;  // less kMaxEmpty a second
  SteadyTime empty_time_ ABSL_GUARDED_BY(empty_mu_);
  Mutex mu_;
  CondVar changed_, stopped_;
  bool looks_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace nerf
