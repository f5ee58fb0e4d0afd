// Cuts the power after nerfd has made its data folder.
#include <gtest/gtest.h>

#include <filesystem>

#include "server/main/data_dir.h"
#include "tests/testing/status_matchers.h"
#include "tests/torture/torture.h"

namespace nerf {
namespace {

TEST(DataDirCutTest, FolderThatWasMadeIsDurable) {
  const Scratch scratch;
  const std::string live = scratch.Empty("live");
  RecordedDisk disk(live);
  ASSERT_THAT(DataDir::Open(live + "/share/nerfd"), IsOk());
  CutDisk cut(disk.first_nodes());
  for (const DiskOp& op : disk.ops()) cut.Apply(op);
  const std::string left = scratch.Empty("cut");
  SeededRandom random(1);
  cut.WriteTo(left, Kept::kNothing, random);
  EXPECT_TRUE(std::filesystem::exists(left + "/share/nerfd"));
}

TEST(DataDirCutTest, ANameThatFailedToSyncIsSyncedByTheNextStart) {
  const Scratch scratch;
  const std::string live = scratch.Empty("live");
  RecordedDisk disk(live);
  disk.set_choose_fault([&](size_t, const DiskOp& op) {
    return op.kind == DiskOp::Kind::kSync ? DiskFault::kIoError : DiskFault::kNone;
  });
  EXPECT_FALSE(DataDir::Open(live + "/share/nerfd").ok());
  disk.set_choose_fault({});
  ASSERT_THAT(DataDir::Open(live + "/share/nerfd"), IsOk());
  CutDisk cut(disk.first_nodes());
  for (const DiskOp& op : disk.ops()) cut.Apply(op);
  const std::string left = scratch.Empty("cut");
  SeededRandom random(1);
  cut.WriteTo(left, Kept::kNothing, random);
  EXPECT_TRUE(std::filesystem::exists(left + "/share/nerfd"));
}

}  // namespace
}  // namespace nerf
