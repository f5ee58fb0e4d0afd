#include "common/control_groups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(UsableCoresTest, AreThoseOfTheAffinityWhereNoGroupLimits) {
  TempDir root;
  const int cores = UsableCores(root.path());
  EXPECT_GE(cores, 1);
  Write(root / "proc/self/cgroup", "0::/pod\n");
  Write(root / "sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(root.path()), cores);
  Write(root / "sys/fs/cgroup/pod/cpu.max", "99900000 100000\n");
  EXPECT_EQ(UsableCores(root.path()), cores);
}

TEST(UsableCoresTest, TakesTheTightestQuotaOfTheGroupsAbove) {
  TempDir root;
  if (UsableCores(root.path()) < 2) GTEST_SKIP() << "one core: a quota of one is no limit";
  Write(root / "proc/self/cgroup", "0::/pods/engine\n");
  Write(root / "sys/fs/cgroup/pods/engine/cpu.max", "150000 100000\n");
  EXPECT_EQ(UsableCores(root.path()), 2) << "a core and a half";
  Write(root / "sys/fs/cgroup/pods/cpu.max", "50000 100000\n");
  EXPECT_EQ(UsableCores(root.path()), 1) << "half a core";
}

TEST(UsableCoresTest, VersionOneQuotasCountToo) {
  TempDir root;
  if (UsableCores(root.path()) < 2) GTEST_SKIP() << "one core: a quota of one is no limit";
  Write(root / "proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/docker/0123\n");
  Write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_GE(UsableCores(root.path()), 2);
  Write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(UsableCores(root.path()), 1);
}

TEST(UsableCoresTest, UnknownOrGarbledFilesAreNoLimit) {
  TempDir root;
  const int cores = UsableCores(root.path());
  Write(root / "proc/self/cgroup", "0::/\n");
  for (const char* quota : {"", "\n", "100000", "100000 0\n", "many 100000\n", "-5 7"}) {
    Write(root / "sys/fs/cgroup/cpu.max", quota);
    EXPECT_EQ(UsableCores(root.path()), cores) << quota;
  }
  Write(root / "sys/fs/cgroup/cpu.max", "0 100000\n");
  EXPECT_EQ(UsableCores(root.path()), 1);
}

}  // namespace
}  // namespace nerf
