#include "engine/train/ranks/new_device_group.h"

#include <string>
#include <utility>

#include "common/logging.h"
#include "engine/train/group/open_nccl.h"
#include "engine/train/ranks/staged_device_group.h"

namespace nerf {

std::unique_ptr<DeviceGroup> NewDeviceGroup(Group* group) {
  absl::StatusOr<std::unique_ptr<DeviceGroup>> nccl = OpenNcclDeviceGroup(group);
  if (nccl.ok()) return *std::move(nccl);
  if (group->rank() == 0) {
    LogInfo("ranks exchange through the host's memory",
            {{"because", std::string(nccl.status().message())}});
  }
  return NewStagedDeviceGroup(group);
}

}  // namespace nerf
