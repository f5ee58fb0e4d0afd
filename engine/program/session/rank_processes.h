#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"

namespace nerf {

// The other ranks of a training on this machine: processes of this program with this process's
// arguments and their own number. They die with the thread that started them. Not thread-safe.
class RankProcesses {
 public:
  // The socket to rank 0 is a rank's file descriptor of this number.
  static constexpr int kSocket = 3;

  // Starts ranks 1 to n_ranks - 1 with `--rank I` behind the arguments.
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(int n_ranks);
  // Kills those that still run.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // One stream socket to each rank, in their order. Called once.
  std::vector<UniqueFd> TakeSockets() { return std::move(sockets_); }

  // How the first rank that did not end well ended, such as "rank 2 was killed by signal 9"; empty
  // if none has after `patience`.
  std::string Loss(absl::Duration patience);

 private:
  RankProcesses() = default;
  void Reap(size_t i, int status);

  std::vector<pid_t> processes_;  // of rank i + 1; 0 once it was reaped
  std::vector<UniqueFd> sockets_;
  std::string killed_, failed_;  // first rank that a signal ended; that ended with an error
};

// In a process that RankProcesses started: dies with its parent from now on.
void DieWithParent();

}  // namespace nerf
