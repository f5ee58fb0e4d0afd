#include "engine/tool/device_monitor.h"

#include <dlfcn.h>

#include "gtest/gtest.h"

namespace nerf {
namespace {

std::string Keys(const DeviceReadings& readings) {
  JsonObject object = JsonObject::object();
  SetReadings(readings, &object);
  return object.dump();
}

TEST(DeviceMonitorTest, ReadsWhatTheDriverTellsOfTheDeviceAtAnAddress) {
  const auto monitor = DeviceMonitor::Open("0000:01:00.0", NERF_FAKE_NVML);
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(Keys(monitor->Read()),
            "{\"gpu_utilization\":0.87,\"gpu_memory_used_bytes\":2000000000.0,"
            "\"gpu_memory_size_bytes\":150000000000.0,\"gpu_temperature_celsius\":61.0,"
            "\"gpu_power_watts\":312.5}");
}

TEST(DeviceMonitorTest, WhatADeviceDoesNotTellIsLeftOut) {
  const auto monitor = DeviceMonitor::Open("0000:02:00.0", NERF_FAKE_NVML);
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(Keys(monitor->Read()),
            "{\"gpu_utilization\":0.87,\"gpu_memory_used_bytes\":2000000000.0,"
            "\"gpu_memory_size_bytes\":150000000000.0}");
  EXPECT_EQ(Keys({}), "{}");
}

TEST(DeviceMonitorTest, NoLibraryNoFunctionsAndNoDeviceAreNoMonitor) {
  EXPECT_EQ(DeviceMonitor::Open("0000:01:00.0", "libnone-of-this-name.so.1"), nullptr);
  EXPECT_EQ(DeviceMonitor::Open("0000:01:00.0", "libm.so.6"), nullptr)
      << "a library of other things";
  EXPECT_EQ(DeviceMonitor::Open("0000:03:00.0", NERF_FAKE_NVML), nullptr);
}

TEST(DeviceMonitorTest, EveryStartIsShutDown) {
  void* const library = dlopen(NERF_FAKE_NVML, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto started = reinterpret_cast<int (*)()>(dlsym(library, "FakeNvmlStarted"));
  ASSERT_NE(started, nullptr);
  {
    const auto monitor = DeviceMonitor::Open("0000:01:00.0", NERF_FAKE_NVML);
    const auto missing = DeviceMonitor::Open("0000:03:00.0", NERF_FAKE_NVML);
    EXPECT_EQ(started(), 1);
  }
  EXPECT_EQ(started(), 0);
  dlclose(library);
}

}  // namespace
}  // namespace nerf
