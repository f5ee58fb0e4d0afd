#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nerf {

// Longest line of `serve --json`, in bytes, without its newline.
inline constexpr size_t kMaxLineBytes = size_t{1} << 20;

// Cuts a stream of bytes into lines. A line above kMaxLineBytes is dropped up to its newline.
// Empty lines are skipped. Not thread-safe.
class LineSplitter {
 public:
  // Calls on_line(std::string) for each line that `bytes` complete, and on_too_long() once for each
  // line that is dropped.
  template <typename OnLine, typename OnTooLong>
  void Add(std::string_view bytes, OnLine on_line, OnTooLong on_too_long);

 private:
  // Takes bytes up to and with the first newline off `bytes`. Returns what they were.
  enum class Found { kPart, kLine, kTooLong };
  Found Take(std::string_view* bytes);

  std::string line_;
  bool dropping_ = false;  // up to the next newline
};

template <typename OnLine, typename OnTooLong>
void LineSplitter::Add(std::string_view bytes, OnLine on_line, OnTooLong on_too_long) {
  while (!bytes.empty()) {
    const Found found = Take(&bytes);
    if (found == Found::kTooLong) on_too_long();
    if (found == Found::kLine) {
      std::string line;
      line.swap(line_);
      on_line(std::move(line));
    }
  }
}

}  // namespace nerf
