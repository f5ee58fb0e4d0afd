#include <exception>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/group/nccl/nccl_device_group.h"

// engine/train/group opens this library and looks this function up by name. Does not throw.
extern "C" __attribute__((visibility("default"))) void NerfNewNcclDeviceGroup(
    nerf::Group* group, absl::StatusOr<std::unique_ptr<nerf::DeviceGroup>>* device_group) {
  try {
    *device_group = nerf::NewNcclDeviceGroup(group);
  } catch (const std::exception& e) {
    *device_group = absl::UnavailableError(e.what());
  }
}
