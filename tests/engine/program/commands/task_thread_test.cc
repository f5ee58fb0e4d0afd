#include "engine/program/serve/task_thread.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace nerf {
namespace {

TEST(TaskThreadTest, TasksRunInOrderOnAnotherThread) {
  std::vector<int> order;
  std::thread::id thread;
  TaskThread tasks("tasks");
  for (int i = 0; i < 100; ++i) {
    tasks.Run([&, i] {
      thread = std::this_thread::get_id();
      order.push_back(i);
    });
  }
  tasks.Wait();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(TaskThreadTest, RunReturnsBeforeItsTask) {
  Mutex mu;
  CondVar changed;
  bool may_end = false, ended = false;
  TaskThread tasks("tasks");
  tasks.Run([&] {
    MutexLock lock(mu);
    while (!may_end) changed.Wait(mu);
    ended = true;
  });
  {
    MutexLock lock(mu);
    EXPECT_FALSE(ended);
    may_end = true;
    changed.NotifyAll();
  }
  tasks.Wait();
  EXPECT_TRUE(ended);
}

TEST(TaskThreadTest, DestructorWaits) {
  int n = 0;
  {
    TaskThread tasks("tasks");
    tasks.Run([&] { ++n; });
    tasks.Run([&] { ++n; });
  }
  EXPECT_EQ(n, 2);
}

}  // namespace
}  // namespace nerf
