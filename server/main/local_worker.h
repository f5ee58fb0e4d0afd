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
  std::string cache_dir;   // its folder, whose lock shows whether a worker runs
  std::string token_file;  // worker.token
  std::string log_level = "info";
  std::string log_format = "text";
  absl::Duration min_backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(30);
  // For tests: called by the supervising thread after each check of the worker.
  std::function<void()> after_look = [] {};
};

// Keeps one nerf-worker running on this machine, in a process group of its own, so that it
// continues to train if the server crashes. Starts one only if the worker's lock is free: a worker
// of an earlier server reconnects by itself, or is asked to end if that server had another address.
// Restarts a worker that dies, with growing pauses.
class LocalWorker {
 public:
  explicit LocalWorker(LocalWorkerOptions options);
  // Leaves the worker running unless Stop was called.
  ~LocalWorker();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

  // Asks the worker to end (SIGTERM), waits up to `grace`, then kills what is left of the process
  // group if this object started it. After this no worker is started.
  void Stop(absl::Duration grace);

 private:
  void Supervise();
  void StopSupervising();
  // Returns 0 if it could not be started.
  pid_t Start();
  // Returns true if the child has ended.
  bool Reap();

  const LocalWorkerOptions options_;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  pid_t child_ = 0;  // used by thread_, and by Stop after its end
  std::thread thread_;
};

// The process that holds a worker's folder; 0 if it is free, -1 if the holder's id is unknown.
pid_t WorkerLockHolder(const std::string& cache_dir);

}  // namespace nerf
