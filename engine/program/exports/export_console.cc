#include "engine/program/exports/export_console.h"

#include <cstdio>

#include "engine/base/protocol/json.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(1);

}  // namespace

ExportConsole::~ExportConsole() { ClearLine(); }

void ExportConsole::ClearLine() const {
  if (style_ == ProgressStyle::kTerminal) fmt::print(stderr, "\r\x1b[K");
}

void ExportConsole::Tell(std::string_view what, const ExportSize& size) {
  if (size.bytes <= 0) return;
  if (style_ == ProgressStyle::kJson) {
    fmt::print("{}", JsonLine({{"event", "size"},
                               {"bytes", JsonNumber(size.bytes)},
                               {"at_most", size.is_bound}}));
  } else {
    ClearLine();
    fmt::print("{}{}\n", what, SizeText(size));
  }
  std::fflush(stdout);
}

void ExportConsole::Show(std::string_view step, double share) {
  if (step == step_ && clock_.Now() < next_) return;
  step_ = step;
  next_ = clock_.Now() + kProgressInterval;
  if (style_ == ProgressStyle::kJson) {
    fmt::print("{}", JsonLine({{"event", "exporting"}, {"step", step}, {"share", share}}));
    std::fflush(stdout);
  } else if (style_ == ProgressStyle::kTerminal) {
    fmt::print(stderr, "\rexporting: {} {:.0f}%\x1b[K", step, 100 * share);
  }
}

}  // namespace nerf
