#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// Says on stderr how far the reading of pictures is, where it takes more than two seconds: "reading
// pictures: 120 of 300, about 8 s left". For OnPictures; called by one thread.
class ReadingProgress {
 public:
  // clock outlives it.
  explicit ReadingProgress(const Clock* clock) : clock_(clock) {}

  // The line to show, or nothing where the last one was less than two seconds ago.
  std::optional<std::string> LineFor(std::string_view what, size_t done, size_t of);
  void operator()(std::string_view what, size_t done, size_t of);

 private:
  const Clock* const clock_;
  std::string what_;
  SteadyTime begin_, last_line_;
  size_t first_done_ = 0, last_done_ = 0, last_of_ = 0;
};

}  // namespace nerf
