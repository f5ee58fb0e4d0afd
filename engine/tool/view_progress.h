#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "common/clock.h"

namespace nerf {

// How progress is shown: as JSON lines, as one line of a terminal that is drawn again and again, or
// as lines of a log.
enum class ProgressStyle { kJson, kTerminal, kLog };

// Tells how many views are done: at the start, and then at most once a second (once in five seconds
// in a log). `what` is being done with them. JSON: {"event":"evaluating","view":3,"views":25}, 3
// being done.
// The destructor clears the line of a terminal. Used from one thread.
class ViewProgress {
 public:
  // clock and out outlive it.
  ViewProgress(std::string_view what, const Clock* clock, ProgressStyle style, size_t n_views,
               std::FILE* out);
  ~ViewProgress();
  ViewProgress(const ViewProgress&) = delete;
  ViewProgress& operator=(const ViewProgress&) = delete;

  // One more view is done.
  void Add();

 private:
  void Print();

  const std::string what_;
  const Clock* const clock_;
  const ProgressStyle style_;
  const size_t n_views_;
  std::FILE* const out_;
  size_t n_done_ = 0;
  SteadyTime next_;
};

// The style of standard error, which carries progress for people; JSON lines go to standard output.
ProgressStyle ConsoleStyle(bool json);
std::FILE* ConsoleStream(ProgressStyle style);

}  // namespace nerf
