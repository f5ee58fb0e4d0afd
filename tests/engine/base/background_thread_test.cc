#include "engine/base/background_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <limits>
#include <string>

namespace nerf {
namespace {

TEST(BackgroundThreadTest, BodyRunsOnAnotherThreadAndTheDestructorWaitsForIt) {
  std::thread::id id;
  {
    const BackgroundThread thread("body", [&] { id = std::this_thread::get_id(); });
  }
  EXPECT_NE(id, std::thread::id());
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST(BackgroundThreadTest, DenormalsAreFlushed) {
  // Volatile: computed on the thread, not by the compiler.
  volatile float smallest = std::numeric_limits<float>::min();
  float half = -1;
  {
    const BackgroundThread thread("body", [&] { half = smallest * 0.5f; });
  }
  EXPECT_EQ(half, 0);
}

TEST(BackgroundThreadTest, ThreadHasItsName) {
  std::atomic<bool> named = false;
  char name[16] = "";
  {
    BackgroundThread thread("sampler_ring", [&] {
      // The name is given by the constructor, from outside.
      while (!named) std::this_thread::yield();
      pthread_getname_np(pthread_self(), name, sizeof(name));
    });
    named = true;
  }
  EXPECT_EQ(std::string(name), "sampler_ring");
}

}  // namespace
}  // namespace nerf
