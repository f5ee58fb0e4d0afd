#include "engine/tool/view_progress.h"

#include <unistd.h>

#include "engine/protocol/json.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
constexpr absl::Duration kLogInterval = absl::Seconds(5);

}  // namespace

ViewProgress::ViewProgress(std::string_view what, const Clock* clock, ProgressStyle style,
                           size_t n_views, std::FILE* out)
    : what_(what), clock_(clock), style_(style), n_views_(n_views), out_(out) {
  Print();
}

ViewProgress::~ViewProgress() {
  if (style_ == ProgressStyle::kTerminal) fmt::print(out_, "\r\x1b[K");
}

void ViewProgress::Add() {
  ++n_done_;
  if (clock_->Now() >= next_) Print();
}

void ViewProgress::Print() {
  next_ = clock_->Now() + (style_ == ProgressStyle::kLog ? kLogInterval : kInterval);
  if (style_ == ProgressStyle::kJson) {
    JsonObject line;
    line["event"] = what_;
    line["view"] = n_done_;
    line["views"] = n_views_;
    fmt::print(out_, "{}", JsonLine(line));
  } else {
    const bool terminal = style_ == ProgressStyle::kTerminal;
    fmt::print(out_, "{}{}: {} of {} views{}", terminal ? "\r" : "", what_, n_done_, n_views_,
               terminal ? "\x1b[K" : "\n");
  }
  std::fflush(out_);
}

ProgressStyle ConsoleStyle(bool json) {
  if (json) return ProgressStyle::kJson;
  return isatty(STDERR_FILENO) == 1 ? ProgressStyle::kTerminal : ProgressStyle::kLog;
}

std::FILE* ConsoleStream(ProgressStyle style) {
  return style == ProgressStyle::kJson ? stdout : stderr;
}

}  // namespace nerf
