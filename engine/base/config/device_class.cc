#include "engine/base/config/device_class.h"

namespace nerf {
namespace {

// An A100 has 108 at 1410 MHz, 152,000; an L4 58 at 2040, 118,000; an H100 132 at 1980, 261,000.
constexpr double kLargeMultiprocessorMhz = 140e3;
constexpr uint64_t kLargeMemoryBytes = uint64_t{16} << 30;

}  // namespace

DeviceClass ClassOf(const DeviceFacts& device) {
  if (device.kind == kOnCpu) return DeviceClass::kCpu;
  const double size = static_cast<double>(device.n_multiprocessors) * device.clock_mhz;
  const bool is_large = size >= kLargeMultiprocessorMhz && device.memory_bytes >= kLargeMemoryBytes;
  return is_large ? DeviceClass::kLargeGpu : DeviceClass::kSmallGpu;
}

std::string_view NameOf(DeviceClass device) {
  switch (device) {
    case DeviceClass::kCpu:
      return "CPU";
    case DeviceClass::kSmallGpu:
      return "small GPU";
    case DeviceClass::kLargeGpu:
      break;
  }
  return "large GPU";
}

double UsualSamplesPerSecond(DeviceClass device) {
  switch (device) {
    case DeviceClass::kCpu:
      return 2.5e6;  // two cores of Zen 5: 2.4 to 4.2 million
    case DeviceClass::kSmallGpu:
      return 4e7;
    case DeviceClass::kLargeGpu:
      break;
  }
  return 1.1e8;
}

}  // namespace nerf
