#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/train/group/device_group.h"
#include "engine/train/group/group.h"

namespace nerf {

// The group of NewNcclDeviceGroup (nccl/nccl_device_group.h), from libnerf_nccl.so, which is opened
// here: ../lib relative to the folder of this program. Called by all ranks of `group`, which
// outlives it. Errors, on all ranks alike: Unimplemented FEATURE_NOT_BUILT where a rank has no such
// library; Unavailable with NCCL's reason, such as two ranks on one device. Throws GroupError.
absl::StatusOr<std::unique_ptr<DeviceGroup>> OpenNcclDeviceGroup(Group* group);

}  // namespace nerf
