#pragma once

#include <memory>

#include "engine/train/group/device_group.h"
#include "engine/train/group/group.h"

namespace nerf {

// What the ranks of `group`, which outlives it, exchange of their devices' memory: by NCCL where
// all of them have it (group/open_nccl.h), else through the host (staged_device_group.h), of which
// rank 0 tells the reason. Called by all ranks; each uses its current device. Throws GroupError.
std::unique_ptr<DeviceGroup> NewDeviceGroup(Group* group);

}  // namespace nerf
