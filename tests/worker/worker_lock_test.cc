#include "worker/base/worker_lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(WorkerLockTest, SecondHolderIsRefusedAndTheIdStaysTheSame) {
  TempDir dir;
  FakeRandom random;
  std::string id;
  {
    const auto lock = WorkerLock::Acquire(dir / "cache", random);
    ASSERT_THAT(lock, IsOk());
    id = lock->worker_id();
    EXPECT_TRUE(IsResourceId(id));
    EXPECT_EQ(std::filesystem::status(dir / "cache").permissions(),
              std::filesystem::perms::owner_all);
    EXPECT_THAT(WorkerLock::Acquire(dir / "cache", random),
                StatusIs(absl::StatusCode::kFailedPrecondition, "--cache-dir"));
  }
  const auto again = WorkerLock::Acquire(dir / "cache", random);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->worker_id(), id);
}

TEST(WorkerLockTest, UnreadableIdIsNamed) {
  TempDir dir;
  FakeRandom random;
  std::ofstream(dir / "worker_id") << "Not An Id";
  EXPECT_THAT(WorkerLock::Acquire(dir.path(), random),
              StatusIs(absl::StatusCode::kDataLoss, "worker_id"));
}

}  // namespace
}  // namespace nerf
