#pragma once

#include <functional>
#include <thread>

namespace nerf {

// One thread beside those of the ThreadPool, for work that runs ahead of theirs. Like them it
// flushes denormals to zero. `body` is called once on it; whoever owns the thread makes body return
// before the destructor, which waits for that. An exception of body ends the process.
class BackgroundThread {
 public:
  // name: for debuggers and top, at most 15 characters.
  BackgroundThread(const char* name, std::function<void()> body);

 private:
  std::jthread thread_;
};

}  // namespace nerf
