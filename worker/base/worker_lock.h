#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/files/file_io.h"
#include "common/ids.h"

namespace nerf {

// Locks a cache folder for one worker process, and keeps the worker's stable id and key in it. The
// kernel releases the lock when the process ends. Movable.
class WorkerLock {
 public:
  // Creates the folder if missing. Errors: FailedPrecondition if another worker holds it;
  // DataLoss if the id in it is unreadable; those of the file system.
  static absl::StatusOr<WorkerLock> Acquire(const std::string& cache_dir, RandomSource& random);

  // 1 to 63 of [a-z0-9-]; stays the same for the folder.
  const std::string& worker_id() const { return worker_id_; }
  // 64 hexadecimal digits, which the server binds the id to; stays the same for the folder.
  const std::string& worker_key() const { return worker_key_; }

 private:
  WorkerLock(UniqueFd fd, std::string worker_id, std::string worker_key)
      : fd_(std::move(fd)), worker_id_(std::move(worker_id)), worker_key_(std::move(worker_key)) {}

  UniqueFd fd_;
  std::string worker_id_;
  std::string worker_key_;
};

}  // namespace nerf
