#include "engine/field/parameters/memory_estimate.h"

#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(AvailableMemoryTest, TakesMemAvailableWhereNoGroupLimits) {
  TempDir root;
  root.Write("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:   2048 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 2048u * 1024);
  root.Write("proc/self/cgroup", "0::/\n");
  root.Write("sys/fs/cgroup/memory.max", "max\n");
  root.Write("sys/fs/cgroup/memory.current", "100\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 2048u * 1024);
}

TEST(AvailableMemoryTest, TakesTheTightestGroupAndGivesBackItsFileCache) {
  TempDir root;
  root.Write("proc/meminfo", "MemAvailable:   99999999 kB\n");
  root.Write("proc/self/cgroup", "0::/pods/engine\n");
  root.Write("sys/fs/cgroup/pods/memory.max", "5000000\n");
  root.Write("sys/fs/cgroup/pods/memory.current", "4000000\n");
  root.Write("sys/fs/cgroup/pods/engine/memory.max", "8000000\n");
  root.Write("sys/fs/cgroup/pods/engine/memory.current", "100\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 1000000u);
  root.Write("sys/fs/cgroup/pods/memory.stat", "anon 7\ninactive_file 500000\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 1500000u);
}

TEST(AvailableMemoryTest, VersionOneLimitsCountToo) {
  TempDir root;
  root.Write("proc/meminfo", "MemAvailable:   99999999 kB\n");
  root.Write("proc/self/cgroup", "12:cpu,cpuacct:/a\n9:hugetlb,memory:/docker/engine\n0::/x\n");
  const std::string groups = "sys/fs/cgroup/memory/";
  root.Write(groups + "docker/memory.limit_in_bytes", "9223372036854771712\n");  // none
  root.Write(groups + "docker/memory.usage_in_bytes", "123\n");
  root.Write(groups + "docker/engine/memory.limit_in_bytes", "6000000\n");
  root.Write(groups + "docker/engine/memory.usage_in_bytes", "5000000\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 1000000u);
  root.Write(groups + "docker/engine/memory.stat", "inactive_file 7\ntotal_inactive_file 250000\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 1250000u);
}

// /proc/self/cgroup names the group's path on the host; inside the container the group is the root.
TEST(AvailableMemoryTest, VersionOneLimitIsFoundInsideAContainer) {
  TempDir root;
  root.Write("proc/meminfo", "MemAvailable:   99999999 kB\n");
  root.Write("proc/self/cgroup", "4:memory:/docker/0123456789abcdef\n");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
  root.Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 2000000u);
}

TEST(AvailableMemoryTest, GroupAboveItsLimitLeavesNothing) {
  TempDir root;
  root.Write("proc/meminfo", "MemAvailable:   1000 kB\n");
  root.Write("proc/self/cgroup", "0::/\n");
  root.Write("sys/fs/cgroup/memory.max", "100\n");
  root.Write("sys/fs/cgroup/memory.current", "200\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 0u);
}

TEST(AvailableMemoryTest, LimitOfThisProcessCountsToo) {
  TempDir root;
  root.Write("proc/meminfo", "MemAvailable:   9000 kB\n");
  const std::string limits = "Limit                     Soft Limit           Hard Limit    Units\n";
  root.Write("proc/self/limits",
             limits + "Max data size             unlimited  unlimited  bytes\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 9000u * 1024);
  root.Write("proc/self/limits",
             limits + "Max data size             4096000    4096000    bytes\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 4096000u);
  root.Write("proc/self/status", "VmPeak: 90000 kB\nVmData:      1000 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root.path()), 4096000u - 1024000);
}

TEST(AvailableMemoryTest, UnknownOrGarbledFilesAreNoLimit) {
  TempDir root;
  EXPECT_EQ(AvailableMemoryBytes(root.path()), std::nullopt);
  root.Write("proc/meminfo", "MemAvailable: lots\n");
  for (const char* groups : {"1:memory:/x\n", "memory", "::", "1:memory:x", "0::", "\n\n", ""}) {
    root.Write("proc/self/cgroup", groups);
    EXPECT_EQ(AvailableMemoryBytes(root.path()), std::nullopt) << groups;
  }
}

TEST(AvailableMemoryTest, ThisMachineAnswers) {
  ASSERT_TRUE(AvailableMemoryBytes().has_value());
  EXPECT_GT(*AvailableMemoryBytes(), uint64_t{16} << 20);
}

TEST(CheckFitsTest, RefusesWithEveryNumberAndFitsExactly) {
  const MemoryEstimate estimate{uint64_t{100} << 20, uint64_t{200} << 20, uint64_t{30} << 20,
                                uint64_t{4} << 20};
  EXPECT_THAT(CheckFits(estimate, estimate.Total()), IsOk());
  EXPECT_THAT(CheckFits(estimate, std::nullopt), IsOk());
  const absl::Status refused = CheckFits(estimate, estimate.Total() - 1);
  EXPECT_THAT(refused, FailsWith(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY"));
  for (const char* number : {"334 MiB", "100 MiB", "200 MiB", "30 MiB"}) {
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, number));
  }
  EXPECT_EQ(GetReason(refused)->metadata.at("needed_bytes"), std::to_string(334ull << 20));
}

TEST(CheckViewFitsTest, RefusesWithBothNumbersAndFitsExactly) {
  const uint64_t needed = ViewBytes(uint64_t{16384} * 16384);
  EXPECT_GT(needed, uint64_t{16384} * 16384 * 23) << "floats and a picture; and no overflow";
  EXPECT_THAT(CheckViewFits(16384, 16384, needed), IsOk());
  EXPECT_THAT(CheckViewFits(16384, 16384, std::nullopt), IsOk());
  const absl::Status refused = CheckViewFits(16384, 16384, uint64_t{7} << 20);
  EXPECT_THAT(refused, FailsWith(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY"));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, "16384 x 16384"));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, "7 MiB"));
}

}  // namespace
}  // namespace nerf
