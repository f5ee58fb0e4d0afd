#include "engine/base/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace nerf {
namespace {

TEST(ThreadPoolTest, EveryIndexIsDoneOnceOnAThreadOfTheTeam) {
  for (const int n_threads : {1, 2, 5}) {
    ThreadPool pool(n_threads);
    ASSERT_EQ(pool.n_threads(), n_threads);
    std::vector<std::atomic<int>> done(1000);
    std::atomic<int> strangers = 0;
    pool.ParallelFor(1000, [&](int64_t index, int thread) {
      ++done[index];
      if (thread < 0 || thread >= n_threads) ++strangers;
    });
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
    EXPECT_EQ(strangers, 0);
    pool.ParallelFor(0, [&](int64_t, int) { ADD_FAILURE() << "there is nothing to do"; });
  }
}

TEST(ThreadPoolTest, ThreadZeroIsTheCallers) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.ParallelFor(300, [&](int64_t, int thread) { ids[thread] = std::this_thread::get_id(); });
  EXPECT_TRUE(ids[0] == std::this_thread::get_id() || ids[0] == std::thread::id());
  EXPECT_NE(ids[1], std::this_thread::get_id());
  EXPECT_NE(ids[2], std::this_thread::get_id());
}

TEST(ThreadPoolTest, ExceptionOfATaskReachesTheCallerAndThePoolGoesOn) {
  for (const int n_threads : {1, 2, 5}) {
    ThreadPool pool(n_threads);
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(pool.ParallelFor(100,
                                    [](int64_t index, int) {
                                      if (index % 10 == 3) throw std::bad_alloc();
                                    }),
                   std::bad_alloc);
      std::atomic<int> n_done = 0;
      pool.ParallelFor(100, [&](int64_t, int) { ++n_done; });
      EXPECT_EQ(n_done, 100);
    }
  }
}

TEST(ThreadPoolTest, TasksThatHadNotBegunAreLeftOutAfterAnException) {
  ThreadPool pool(2);
  constexpr int64_t kTasks = 1'000'000'000;
  std::atomic<bool> has_thrown = false;
  std::atomic<int64_t> n_done = 0;
  EXPECT_THROW(pool.ParallelFor(kTasks,
                                [&](int64_t index, int) {
                                  if (index == 0) {
                                    has_thrown = true;
                                    throw std::runtime_error("no");
                                  }
                                  while (!has_thrown) std::this_thread::yield();
                                  ++n_done;
                                }),
               std::runtime_error);
  EXPECT_LT(n_done, kTasks / 10);
}

}  // namespace
}  // namespace nerf
