#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/tool/json_lines.h"

namespace nerf {

// What a device is doing; what its driver does not tell is unset.
struct DeviceReadings {
  std::optional<double> utilization;  // share of the last second or so with a kernel at work
  std::optional<double> memory_used_bytes, memory_size_bytes;  // of all processes
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
};

// The keys of a progress line that tell them, for those that are set.
void SetReadings(const DeviceReadings& readings, JsonObject* object);

// Reads a GPU by NVML, the library of NVIDIA's driver, which is opened when it is asked for: this
// program needs neither it nor its header. Used from one thread.
class DeviceMonitor {
 public:
  // The device with this address on the PCI bus, "0000:1b:00.0": NVML counts devices otherwise than
  // CUDA does. nullptr where the library, or what we need of it, or the device is not there.
  static std::unique_ptr<DeviceMonitor> Open(const std::string& pci_bus_id,
                                             const std::string& library = "libnvidia-ml.so.1");
  ~DeviceMonitor();
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  DeviceReadings Read() const;

 private:
  struct Nvml;
  explicit DeviceMonitor(std::unique_ptr<Nvml> nvml);
  const std::unique_ptr<Nvml> nvml_;
};

}  // namespace nerf
