#pragma once

#include <memory>

#include "engine/train/group/device_group.h"
#include "engine/train/group/group.h"

namespace nerf {

// Exchanges arrays of devices through the host's memory and `group`, which outlives it: where ranks
// have no NCCL, and under the emulation of the tests. Each call waits for the work in the stream,
// so it cannot be part of a graph.
std::unique_ptr<DeviceGroup> NewStagedDeviceGroup(Group* group);

}  // namespace nerf
