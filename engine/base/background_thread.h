#pragma once

#include <functional>
#include <thread>

namespace nerf {

// A thread beside those of the ThreadPool, for work that runs ahead of theirs. Like them it flushes
// denormals to zero. It calls `body` once. The destructor waits until body has returned, so the
// owner must first make it return. An exception from body ends the process.
class BackgroundThread {
 public:
  // name: shown by debuggers and top; at most 15 characters.
  BackgroundThread(const char* name, std::function<void()> body);

 private:
  std::jthread thread_;
};

}  // namespace nerf
