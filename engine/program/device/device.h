#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/device_class.h"
#include "engine/base/parallel_for.h"
#include "engine/program/device/device_monitor.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// Devices by the name that --device takes: "cpu" or "cuda:N".

// N of "cuda:N"; nullopt for every other text.
std::optional<int> CudaIndex(std::string_view device);

// Error: Unimplemented FEATURE_NOT_BUILT, which says what this build lacks.
absl::Status NotBuiltError(const std::string& message);

// OK for "cpu", and for "cuda:N" if this build has CUDA kernels and the machine has that device.
// Errors: Unimplemented FEATURE_NOT_BUILT without kernels; FailedPrecondition that says what the
// device or its driver lacks; InvalidArgument for any other name.
absl::Status CheckDevice(std::string_view device);

// One line for people: the processor, or name, capability and memory of the GPU.
// Requires: CheckDevice(device) is OK.
std::string DescriptionOf(std::string_view device);

// What choices of settings know of it; of a device that CheckDevice refuses its kind alone.
DeviceFacts FactsOf(std::string_view device);

// Reads utilization, memory, temperature and power of a CUDA device. nullptr for "cpu" and if the
// driver's library is missing.
std::unique_ptr<DeviceMonitor> NewDeviceMonitor(std::string_view device);

// Renders views on `device`. Errors: as CheckDevice. pool outlives it.
absl::StatusOr<std::unique_ptr<RenderDevice>> NewRenderDevice(std::string_view device,
                                                              ThreadPool* pool);

}  // namespace nerf
