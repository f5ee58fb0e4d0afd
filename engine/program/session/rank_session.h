#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/program/session/rank_processes.h"
#include "engine/program/session/training_session.h"
#include "engine/train/group/group.h"
#include "engine/train/group/rendezvous.h"

namespace nerf {

// How a process takes part in a training by several ranks (docs/inside/ranks.md).
struct RankFlags {
  int n_ranks = 1;
  std::optional<int> rank;     // unset: rank 0, which starts the others on this machine
  std::string rendezvous;      // HOST:PORT at which ranks of several machines meet; else empty
  std::string interface;       // of the ranks' traffic; empty: loopback
  bool central_feed = false;   // see TrainerOptions
  bool share_devices = false;  // CUDA: where there are fewer devices than ranks
  std::optional<int> batches_ahead;  // unset: as BatchesAhead says

  // With pictures in a file a thread of its own draws ahead, unless the user sets this.
  int BatchesAhead(bool pictures_in_file) const {
    return batches_ahead.value_or(pictures_in_file ? 4 : 0);
  }
  bool IsStarted() const { return rank.has_value() && rendezvous.empty(); }  // by RankProcesses
};

// Errors: InvalidArgument for flags that do not go together, naming them; Unimplemented for a
// method that ranks cannot share; FailedPrecondition where CUDA ranks have no device.
// device: that of --device. Requires: CheckDevice(device) is OK.
absl::Status CheckRanks(const RankFlags& flags, const TrainConfig& config,
                        const std::string& device);

// The device of this rank. CUDA ranks that one command starts take a device each, from that of
// --device on, and begin again there where they share devices. Others take that of --device.
// Requires: CheckDevice(device) is OK.
std::string DeviceOfRank(const RankFlags& flags, const std::string& device);

// This process's part in a group. Not thread-safe.
class RankSession {
 public:
  // Starts the other ranks or meets them. Requires: CheckRanks is OK.
  static absl::StatusOr<std::unique_ptr<RankSession>> Open(const RankFlags& flags);
  // With ranks that others have started and that meet in their own way.
  static absl::StatusOr<std::unique_ptr<RankSession>> Join(std::unique_ptr<Rendezvous> rendezvous,
                                                           const std::string& interface);

  Group* group() { return group_.get(); }

  // Waits until every rank has opened its session, and compares them. `opened`: how it went here.
  // Errors: `opened`; that of another rank, with its number; FailedPrecondition naming what differs
  // from rank 0's.
  absl::Status Agree(const absl::Status& opened, const TrainingSession* session);

  // The error that a lost rank means to the user: Unavailable. Which one it was is then
  // lost_rank().
  absl::Status Explain(const GroupError& error);
  int lost_rank() const { return lost_rank_; }  // -1: not known

 private:
  RankSession(std::unique_ptr<RankProcesses> processes, std::unique_ptr<Rendezvous> rendezvous)
      : processes_(std::move(processes)), rendezvous_(std::move(rendezvous)) {}

  std::unique_ptr<RankProcesses> processes_;  // of rank 0 that started them; destroyed last
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Group> group_;
  int lost_rank_ = -1;
};

}  // namespace nerf
