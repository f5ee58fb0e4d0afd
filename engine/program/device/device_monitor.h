#pragma once

#include <memory>
#include <string>

#include "engine/base/protocol/progress.h"

namespace nerf {

// Reads a GPU through NVML, the library of NVIDIA's driver. The library is opened at run time, so
// the build needs neither it nor its header. Used from one thread.
class DeviceMonitor {
 public:
  // The device with this PCI address, "0000:1b:00.0"; NVML numbers devices in another order than
  // CUDA. nullptr if the library, one of its functions, or the device is missing.
  static std::unique_ptr<DeviceMonitor> Open(const std::string& pci_bus_id,
                                             const std::string& library = "libnvidia-ml.so.1");
  ~DeviceMonitor();
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  // Sets the gpu_ figures. Those that the driver does not report become kUnknownFigure.
  void Read(TrainProgress* progress) const;

 private:
  struct Nvml;
  explicit DeviceMonitor(std::unique_ptr<Nvml> nvml);
  const std::unique_ptr<Nvml> nvml_;
};

}  // namespace nerf
