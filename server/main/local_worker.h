#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace nerf {

struct LocalWorkerOptions {
  std::string program;     // nerf-worker
  std::string server;      // address that the worker connects to
  std::string cache_dir;   // its folder, whose lock says whether a worker lives
  std::string token_file;  // worker.token
  std::string log_level = "info";
  absl::Duration min_backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(30);
  // For tests: called by the supervising thread each time it has looked after the worker.
  std::function<void()> after_look = [] {};
};

// Keeps one nerf-worker running on this machine, in a process group of its own, so that it outlives
// a crash of the server and goes on training. Starts one only when the worker's lock is free: one
// that outlived an earlier server finds back by itself, unless that server had another address;
// then it is asked to end. A worker that dies is started again, with growing pauses.
class LocalWorker {
 public:
  explicit LocalWorker(LocalWorkerOptions options);
  // Leaves the worker alone where Stop was not called.
  ~LocalWorker();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

  // Asks the worker to end (SIGTERM), waits up to `grace` and kills what is left of our own child's
  // group. Nothing is started any more.
  void Stop(absl::Duration grace);

 private:
  void Supervise();
  void StopSupervising();
  // 0 when it could not be started.
  pid_t Start();
  // True when the child has ended.
  bool Reap();

  const LocalWorkerOptions options_;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  pid_t child_ = 0;  // of the thread; of Stop once that has ended
  std::thread thread_;
};

// The process that holds a worker's folder; 0 when nobody does, -1 when somebody does who cannot be
// named.
pid_t WorkerLockHolder(const std::string& cache_dir);

}  // namespace nerf
