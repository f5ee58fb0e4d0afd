#include "engine/program/device/device_monitor.h"

#include <dlfcn.h>

#include "gtest/gtest.h"

namespace nerf {
namespace {

// The figures that a progress line gets from the monitor.
std::string Keys(const DeviceMonitor& monitor) {
  JsonObject before, after;
  TrainProgress progress;
  SetProgress(progress, &before);
  monitor.Read(&progress);
  SetProgress(progress, &after);
  for (const auto& [key, value] : before.items()) after.erase(key);
  return after.dump();
}

TEST(DeviceMonitorTest, ReadsTheFiguresOfTheDeviceAtAnAddress) {
  const auto monitor = DeviceMonitor::Open("0000:01:00.0", NERF_FAKE_NVML);
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(Keys(*monitor),
            "{\"gpu_utilization\":0.87,\"gpu_memory_used_bytes\":2000000000.0,"
            "\"gpu_memory_size_bytes\":150000000000.0,\"gpu_temperature_celsius\":61.0,"
            "\"gpu_power_watts\":312.5}");
}

TEST(DeviceMonitorTest, FiguresThatADeviceDoesNotReportAreLeftOut) {
  const auto monitor = DeviceMonitor::Open("0000:02:00.0", NERF_FAKE_NVML);
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(Keys(*monitor),
            "{\"gpu_utilization\":0.87,\"gpu_memory_used_bytes\":2000000000.0,"
            "\"gpu_memory_size_bytes\":150000000000.0}");
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
