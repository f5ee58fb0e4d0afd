#pragma once

#include <string>
#include <string_view>

#include "common/clock.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/exports/export_size.h"

namespace nerf {

// Prints how large an export will be and how far it is, at the start of each step and then once a
// second. The destructor clears the terminal's line. Used from one thread.
class ExportConsole {
 public:
  explicit ExportConsole(bool json) : style_(ConsoleStyle(json)) {}
  ~ExportConsole();
  ExportConsole(const ExportConsole&) = delete;
  ExportConsole& operator=(const ExportConsole&) = delete;

  // On stdout, unless it is not known. what: before the size; may be empty.
  void Tell(std::string_view what, const ExportSize& size);
  // share: of the step, 0 to 1.
  void Show(std::string_view step, double share);

 private:
  void ClearLine() const;

  const RealClock clock_;
  const ProgressStyle style_;
  std::string step_;
  SteadyTime next_;
};

}  // namespace nerf
