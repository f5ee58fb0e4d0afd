#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/config/setting.h"

namespace nerf {

// What choices of settings know of a device: its kind and size, not a rate measured on it, so that
// equal configs on equal devices give equal choices.
struct DeviceFacts {
  DeviceSet kind = kOnCpu;
  int n_multiprocessors = 0;  // of a CUDA device, as are those below
  int clock_mhz = 0;
  uint64_t memory_bytes = 0;
};

// kLargeGpu: with the multiprocessors times clock of an A100, or nearly, and 16 GiB.
enum class DeviceClass { kCpu, kSmallGpu, kLargeGpu };
DeviceClass ClassOf(const DeviceFacts& device);
// "CPU", "small GPU", "large GPU".
std::string_view NameOf(DeviceClass device);

// Samples that method ngp trains in a second of a whole run, for budgets in seconds.
//   kCpu: a few cores.
//   kSmallGpu: not measured. An L4 has 0.45 of an H100's multiprocessors times clock and a tenth of
//   its bandwidth.
//   kLargeGpu: the least of 110 to 160 million, of runs of 2 to 30 s on one H100 with tables of
//   2^17 to 2^19 entries.
double UsualSamplesPerSecond(DeviceClass device);

}  // namespace nerf
