#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/protocol/line_splitter.h"

namespace nerf {

// Lines over a connected stream socket. One thread reads; one at a time writes. Borrows the
// descriptor.
class LineSocket {
 public:
  explicit LineSocket(int fd) : fd_(fd) {}

  // Calls on_line with each line until the other side ends or Shutdown is called, and on_too_long
  // once for each line above kMaxLineBytes, which is dropped. An unfinished last line is dropped.
  void ReadLines(const std::function<void(const std::string&)>& on_line,
                 const std::function<void()>& on_too_long);

  // Writes all bytes; blocks while the other side reads slowly. False if it has gone.
  bool Write(std::string_view bytes);

  // Ends reading and writing. Thread-safe.
  void Shutdown();

 private:
  const int fd_;
};

}  // namespace nerf
