#pragma once

#include <string>
#include <string_view>

#include "common/clock.h"
#include "engine/commands/view_progress.h"

namespace nerf {

// Prints how far an export is, at the start of each step and then once a second. The destructor
// clears the terminal's line. Used from one thread.
class ExportConsole {
 public:
  explicit ExportConsole(bool json) : style_(ConsoleStyle(json)) {}
  ~ExportConsole();
  ExportConsole(const ExportConsole&) = delete;
  ExportConsole& operator=(const ExportConsole&) = delete;

  // share: of the step, 0 to 1.
  void Show(std::string_view step, double share);

 private:
  const RealClock clock_;
  const ProgressStyle style_;
  std::string step_;
  SteadyTime next_;
};

}  // namespace nerf
