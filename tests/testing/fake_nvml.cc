// A shared library with the part of NVML that device_monitor.cc uses. It has two GPUs:
// 0000:01:00.0, which reports everything, and 0000:02:00.0, which reports neither temperature nor
// power. Functions fail before nvmlInit and after nvmlShutdown.
#include <cstring>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kNotFound = 6;
int n_started = 0;
int full = 0, reticent = 0;  // their addresses are handles

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++n_started;
  return kSuccess;
}
int nvmlShutdown() {
  if (n_started == 0) return kUninitialized;
  --n_started;
  return kSuccess;
}
// For tests: the number of nvmlInit calls without nvmlShutdown.
int FakeNvmlStarted() { return n_started; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  if (n_started == 0) return kUninitialized;
  if (std::strcmp(id, "0000:01:00.0") == 0) {
    *device = &full;
  } else if (std::strcmp(id, "0000:02:00.0") == 0) {
    *device = &reticent;
  } else {
    return kNotFound;
  }
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void*, unsigned int* percents) {
  if (n_started == 0) return kUninitialized;
  percents[0] = 87;
  percents[1] = 40;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* bytes) {
  if (n_started == 0) return kUninitialized;
  bytes[0] = 150000000000;
  bytes[1] = 148000000000;
  bytes[2] = 2000000000;
  return kSuccess;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* celsius) {
  if (device == &reticent || sensor != 0) return kNotSupported;
  *celsius = 61;
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  if (device == &reticent) return kNotSupported;
  *milliwatts = 312500;
  return kSuccess;
}

}  // extern "C"
