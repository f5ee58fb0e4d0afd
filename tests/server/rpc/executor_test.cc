#include "server/rpc/calls/executor.h"

#include <gtest/gtest.h>

#include <memory>

namespace nerf {
namespace {

TEST(ExecutorTest, DroppedTimerLetsGoOfItsTaskAtOnce) {
  Executor executor;
  const auto held = std::make_shared<int>();
  const Executor::Timer dropped = executor.PostAfter(absl::Hours(1), [held] {});
  const Executor::Timer kept = executor.PostAfter(absl::Hours(1), [held] {});
  EXPECT_EQ(held.use_count(), 3);
  executor.Drop(dropped);
  executor.Drop(dropped);
  EXPECT_EQ(held.use_count(), 2);
  executor.Drop(kept);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace nerf
