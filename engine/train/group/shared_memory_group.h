#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/train/group/group.h"
#include "engine/train/group/rendezvous.h"

namespace nerf {

struct SharedMemoryOptions {
  // Longest time that a rank may be waited for; then the group has failed.
  absl::Duration time_limit = absl::Seconds(20);
  // How long a rank that waits stays awake, since waking a virtual processor takes up to 0.1 ms.
  absl::Duration spin = absl::Milliseconds(2);
};

// A group of processes of one machine: a rank writes blocks into memory that the others read. A
// rank that dies is noticed within 20 ms of waiting, one that stands still after
// options.time_limit. Null where the ranks cannot share memory, as those of several machines or
// containers. Errors: those of the rendezvous.
absl::StatusOr<std::unique_ptr<Group>> OpenSharedMemoryGroup(
    Rendezvous* rendezvous, const SharedMemoryOptions& options = {});

}  // namespace nerf
