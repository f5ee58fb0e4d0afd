#include "common/process/control_groups.h"

#include <gtest/gtest.h>

#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(UsableCoresTest, AreThoseOfTheAffinityWhereNoGroupLimits) {
  TempDir root;
  const int cores = UsableCores(root.path());
  EXPECT_GE(cores, 1);
  root.Write("proc/self/cgroup", "0::/pod\n");
  root.Write("sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(root.path()), cores);
  root.Write("sys/fs/cgroup/pod/cpu.max", "99900000 100000\n");
  EXPECT_EQ(UsableCores(root.path()), cores);
}

TEST(UsableCoresTest, TakesTheTightestQuotaOfTheGroupsAbove) {
  TempDir root;
  if (UsableCores(root.path()) < 2) GTEST_SKIP() << "one core: a quota of one is no limit";
  root.Write("proc/self/cgroup", "0::/pods/engine\n");
  root.Write("sys/fs/cgroup/pods/engine/cpu.max", "150000 100000\n");
  EXPECT_EQ(UsableCores(root.path()), 2) << "a core and a half";
  root.Write("sys/fs/cgroup/pods/cpu.max", "50000 100000\n");
  EXPECT_EQ(UsableCores(root.path()), 1) << "half a core";
}

TEST(UsableCoresTest, VersionOneQuotasCountToo) {
  TempDir root;
  if (UsableCores(root.path()) < 2) GTEST_SKIP() << "one core: a quota of one is no limit";
  root.Write("proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/docker/0123\n");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_GE(UsableCores(root.path()), 2);
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(UsableCores(root.path()), 1);
}

TEST(UsableCoresTest, UnknownOrGarbledFilesAreNoLimit) {
  TempDir root;
  const int cores = UsableCores(root.path());
  root.Write("proc/self/cgroup", "0::/\n");
  for (const char* quota : {"", "\n", "100000", "100000 0\n", "many 100000\n", "-5 7"}) {
    root.Write("sys/fs/cgroup/cpu.max", quota);
    EXPECT_EQ(UsableCores(root.path()), cores) << quota;
  }
  root.Write("sys/fs/cgroup/cpu.max", "0 100000\n");
  EXPECT_EQ(UsableCores(root.path()), 1);
}

}  // namespace
}  // namespace nerf
