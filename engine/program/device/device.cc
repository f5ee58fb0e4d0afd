#include "engine/program/device/device.h"

#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "common/edit_distance.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/methods/registry.h"
#include "engine/program/device/machine.h"
#include "fmt/format.h"

namespace nerf {

std::optional<int> CudaIndex(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (device.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  const std::string_view digits = device.substr(kPrefix.size());
  int index = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || index < 0)
    return std::nullopt;
  return index;
}

absl::Status NotBuiltError(const std::string& message) {
  return WithReason(absl::UnimplementedError(message), reason::kFeatureNotBuilt);
}

absl::Status CheckDevice(std::string_view device) {
  if (device == "cpu") return absl::OkStatus();
  const std::optional<int> index = CudaIndex(device);
  const std::string name(device.substr(0, 32));
  if (!index.has_value()) {
    const std::vector<std::string> known = {"cpu", "cuda:0"};
    return absl::InvalidArgumentError(
        fmt::format("device: '{}' is neither cpu nor cuda:N{}", name, DidYouMean(name, known)));
  }
  if (!kernels::cuda::IsBuilt()) {
    return NotBuiltError(fmt::format("device {}: this build has no CUDA; use --device cpu", name));
  }
  const std::string why = kernels::cuda::WhyUnavailable(*index);
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("device {}: {}", name, why));
}

std::string DescriptionOf(std::string_view device) {
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value()) return DeviceDescription();
  const kernels::cuda::DeviceDescription found = kernels::cuda::DescribeDevice(*cuda_index);
  return fmt::format("{}, capability {}.{}, {} MiB", found.name, found.compute_capability / 10,
                     found.compute_capability % 10, found.total_bytes >> 20);
}

DeviceFacts FactsOf(std::string_view device) {
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value() || !CheckDevice(device).ok()) return {.kind = DeviceSetOf(device)};
  const kernels::cuda::DeviceDescription found = kernels::cuda::DescribeDevice(*cuda_index);
  return {kOnCuda, found.n_multiprocessors, found.clock_mhz, found.total_bytes};
}

std::unique_ptr<DeviceMonitor> NewDeviceMonitor(std::string_view device) {
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value()) return nullptr;
  return DeviceMonitor::Open(kernels::cuda::DescribeDevice(*cuda_index).pci_bus_id);
}

absl::StatusOr<std::unique_ptr<RenderDevice>> NewRenderDevice(std::string_view device,
                                                              ThreadPool* pool) {
  NERF_RETURN_IF_ERROR(CheckDevice(device));
  const std::optional<int> cuda_index = CudaIndex(device);
  return cuda_index.has_value() ? NewCudaRenderDevice(*cuda_index) : NewCpuRenderDevice(pool);
}

}  // namespace nerf
