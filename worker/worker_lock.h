#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/file_io.h"
#include "common/ids.h"

namespace nerf {

// Holds a cache folder for one worker process, and with it the worker's stable id. The lock ends
// with the process, however it dies. Movable.
class WorkerLock {
 public:
  // Makes the folder where it is missing. Errors: FailedPrecondition when another worker holds it;
  // DataLoss when the id in it is unreadable; those of the system.
  static absl::StatusOr<WorkerLock> Acquire(const std::string& cache_dir, RandomSource& random);

  // 1 to 63 of [a-z0-9-]; the same for every process that ever holds this folder.
  const std::string& worker_id() const { return worker_id_; }

 private:
  WorkerLock(UniqueFd fd, std::string worker_id)
      : fd_(std::move(fd)), worker_id_(std::move(worker_id)) {}

  UniqueFd fd_;
  std::string worker_id_;
};

}  // namespace nerf
