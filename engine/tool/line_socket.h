#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace nerf {

// Longest line of the message protocol, in bytes, without its newline.
inline constexpr size_t kMaxLineBytes = size_t{1} << 20;

// Lines over a connected stream socket. One thread reads, one writes. Borrows the descriptor.
class LineSocket {
 public:
  explicit LineSocket(int fd) : fd_(fd) {}

  // Calls on_line with each line until the other side ends or Shutdown is called. A line that is
  // too long is dropped and calls on_too_long once. What stands behind the last newline is no line.
  void ReadLines(const std::function<void(const std::string&)>& on_line,
                 const std::function<void()>& on_too_long);

  // Writes all bytes, waiting where the other side is slow. False when it has gone.
  bool Write(std::string_view bytes);

  // Ends reading and writing, from any thread.
  void Shutdown();

 private:
  const int fd_;
};

}  // namespace nerf
