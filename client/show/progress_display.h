#pragma once

#include <functional>
#include <string>

#include "client/flags/global_flags.h"
#include "client/flags/io.h"

namespace nerf {

// The progress of a long operation.
struct ProgressLine {
  double fraction = 0;  // 0 to 1
  std::string label;    // left of the bar: "step  1840/4000"
  std::string details;  // right of it: "loss 0.0041  eta 0:48"
  std::string json;     // one object for --progress json; empty: none
};

// Shows progress on standard error: a bar redrawn at most ten times a second, or a line every 5 s
// or 5 % (at most one a second), or JSON lines, or nothing. Not thread-safe.
class ProgressDisplay {
 public:
  // `io` outlives the display.
  ProgressDisplay(const Io& io, ProgressMode mode);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void Update(const ProgressLine& line);
  // Prints a line above the bar. JSON in kJson, nothing in kNone.
  void Say(std::string_view line);
  // Draws the last state again and leaves it on the screen.
  void Finish();
  // Removes the bar from the screen.
  void Clear();

 private:
  std::string BarText(const ProgressLine& line) const;

  const Io& io_;
  const ProgressMode mode_;
  bool drawn_ = false;    // the current line shows a bar
  bool pending_ = false;  // last_ is newer than what is shown
  ProgressLine last_;
  bool shown_once_ = false;
  SteadyTime shown_at_;
  double shown_fraction_ = 0;
};

}  // namespace nerf
