#pragma once

#include <memory>

#include "absl/time/time.h"
#include "engine/train/group/device_group.h"
#include "engine/train/group/group.h"

namespace nerf {

struct NcclOptions {
  // Longest time that an exchange may take, and that ranks may need to connect; then the group has
  // failed.
  absl::Duration time_limit = absl::Seconds(20);
  absl::Duration connect_limit = absl::Seconds(60);
};

// A group of devices by NCCL, each of them the calling thread's current device: one device a rank.
// Called by all ranks of `group`, which outlives it. NCCL's sockets are on the network interface of
// `group`, which is the loopback unless the user named another one; they are not encrypted. An
// exchange is tried first, so that ranks which connect and cannot exchange get no group. Each
// exchange returns when it is done, since a kernel of NCCL waits without end for a rank that is
// lost. Throws GroupError.
std::unique_ptr<DeviceGroup> NewNcclDeviceGroup(Group* group, const NcclOptions& options = {});

}  // namespace nerf
