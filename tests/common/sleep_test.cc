#include "common/sleep.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace nerf {
namespace {

TEST(SleepTest, LastsAsLongAsAskedUnlessStopIsRequested) {
  std::stop_source stop;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(SleepUnlessStopped(absl::Milliseconds(20), stop.get_token()));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_TRUE(SleepUnlessStopped(absl::ZeroDuration(), stop.get_token()));
  std::thread other([&] { stop.request_stop(); });
  EXPECT_FALSE(SleepUnlessStopped(absl::Hours(1), stop.get_token()));
  other.join();
  EXPECT_FALSE(SleepUnlessStopped(absl::Hours(1), stop.get_token())) << "requested before";
}

}  // namespace
}  // namespace nerf
