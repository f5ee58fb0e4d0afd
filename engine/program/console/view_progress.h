#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "engine/base/protocol/progress.h"

namespace nerf {

// How progress is shown: as JSON lines, as one line of a terminal that is redrawn, or as lines of a
// log.
enum class ProgressStyle { kJson, kTerminal, kLog };

// "3:07": minutes and seconds.
std::string ClockText(double seconds);

// "step 30  12%  loss 0.01 ...": where a training stands.
std::string TrainingText(const TrainProgress& progress);

// Prints how many views are done and how long the others will take: at the start, then at most once
// a second; in a log once in five seconds. `what` is the verb, "evaluating". As JSON:
// {"event":"evaluating","view":3,"views":25,"seconds_left":2.2} when 3 views are done. The
// destructor clears the terminal's line. Used from one thread.
class ViewProgress {
 public:
  // expected: how long all views will take; infinite if that is not known, which is then said after
  // the first view. clock and out outlive it.
  ViewProgress(std::string_view what, const Clock* clock, ProgressStyle style, size_t n_views,
               std::FILE* out, absl::Duration expected = absl::InfiniteDuration());
  ~ViewProgress();
  ViewProgress(const ViewProgress&) = delete;
  ViewProgress& operator=(const ViewProgress&) = delete;

  // One more view is done.
  void Add();
  // Prints if it is time to: for views that take long.
  void Refresh();

 private:
  void Print();
  // Infinite while it is not known; falls between two views.
  absl::Duration Left() const;

  const std::string what_;
  const Clock* const clock_;
  const ProgressStyle style_;
  const size_t n_views_;
  std::FILE* const out_;
  const absl::Duration expected_;
  const SteadyTime begin_;
  size_t n_done_ = 0;
  SteadyTime added_;  // when the last view was done
  SteadyTime next_;
};

// JSON lines go to standard output, progress for people to standard error.
ProgressStyle ConsoleStyle(bool json);
std::FILE* ConsoleStream(ProgressStyle style);

}  // namespace nerf
