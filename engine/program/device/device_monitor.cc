#include "engine/program/device/device_monitor.h"

#include <dlfcn.h>

#include <utility>

namespace nerf {
namespace {

// The part of NVML's interface that is used here. Source: NVML API reference.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlTemperatureOfGpu = 0;
struct NvmlUtilization {
  unsigned int gpu, memory;  // percent
};
struct NvmlMemory {
  unsigned long long total, free, used;  // NOLINT(runtime/int): as NVML has it
};

}  // namespace

struct DeviceMonitor::Nvml {
  void* library = nullptr;
  int (*shutdown)() = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*temperature)(NvmlDevice, int sensor, unsigned int* celsius) = nullptr;
  int (*power)(NvmlDevice, unsigned int* milliwatts) = nullptr;
  NvmlDevice device = nullptr;
  bool started = false;

  ~Nvml() {
    if (started) shutdown();
    if (library != nullptr) dlclose(library);
  }
  template <typename Function>
  bool Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
};

DeviceMonitor::DeviceMonitor(std::unique_ptr<Nvml> nvml) : nvml_(std::move(nvml)) {}
DeviceMonitor::~DeviceMonitor() = default;

std::unique_ptr<DeviceMonitor> DeviceMonitor::Open(const std::string& pci_bus_id,
                                                   const std::string& library) {
  auto nvml = std::make_unique<Nvml>();
  nvml->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml->library == nullptr) return nullptr;
  int (*start)() = nullptr;
  int (*find_device)(const char*, NvmlDevice*) = nullptr;
  const bool complete = nvml->Find("nvmlInit_v2", &start) &&
                        nvml->Find("nvmlShutdown", &nvml->shutdown) &&
                        nvml->Find("nvmlDeviceGetHandleByPciBusId_v2", &find_device) &&
                        nvml->Find("nvmlDeviceGetUtilizationRates", &nvml->utilization) &&
                        nvml->Find("nvmlDeviceGetMemoryInfo", &nvml->memory) &&
                        nvml->Find("nvmlDeviceGetTemperature", &nvml->temperature) &&
                        nvml->Find("nvmlDeviceGetPowerUsage", &nvml->power);
  if (!complete || start() != kNvmlSuccess) return nullptr;
  nvml->started = true;
  if (find_device(pci_bus_id.c_str(), &nvml->device) != kNvmlSuccess) return nullptr;
  return std::unique_ptr<DeviceMonitor>(new DeviceMonitor(std::move(nvml)));
}

void DeviceMonitor::Read(TrainProgress* progress) const {
  NvmlUtilization utilization = {};
  NvmlMemory memory = {};
  unsigned int celsius = 0, milliwatts = 0;
  const auto figure = [](int result, double value) {
    return result == kNvmlSuccess ? value : kUnknownFigure;
  };
  const int utilization_result = nvml_->utilization(nvml_->device, &utilization);
  const int memory_result = nvml_->memory(nvml_->device, &memory);
  const int temperature_result = nvml_->temperature(nvml_->device, kNvmlTemperatureOfGpu, &celsius);
  const int power_result = nvml_->power(nvml_->device, &milliwatts);
  progress->gpu_utilization = figure(utilization_result, utilization.gpu / 100.0);
  progress->gpu_memory_used_bytes = figure(memory_result, static_cast<double>(memory.used));
  progress->gpu_memory_size_bytes = figure(memory_result, static_cast<double>(memory.total));
  progress->gpu_temperature_celsius = figure(temperature_result, celsius);
  progress->gpu_power_watts = figure(power_result, milliwatts / 1000.0);
}

}  // namespace nerf
