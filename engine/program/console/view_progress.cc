#include "engine/program/console/view_progress.h"

#include <unistd.h>

#include <algorithm>

#include "engine/base/protocol/json.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
constexpr absl::Duration kLogInterval = absl::Seconds(5);

}  // namespace

std::string ClockText(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(std::min(seconds, 1e9)));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string TrainingText(const TrainProgress& progress) {
  return fmt::format("step {}  {}%  loss {:.5f}  train {:.1f} dB  {:.2f} M samples/s  eta {}",
                     progress.step, static_cast<int>(progress.fraction * 100), progress.loss,
                     progress.psnr_train, progress.samples_per_second / 1e6,
                     ClockText(progress.eta_seconds));
}

ViewProgress::ViewProgress(std::string_view what, const Clock* clock, ProgressStyle style,
                           size_t n_views, std::FILE* out, absl::Duration expected)
    : what_(what),
      clock_(clock),
      style_(style),
      n_views_(n_views),
      out_(out),
      expected_(expected),
      begin_(clock->Now()),
      added_(begin_) {
  Print();
}

ViewProgress::~ViewProgress() {
  if (style_ == ProgressStyle::kTerminal) fmt::print(out_, "\r\x1b[K");
}

void ViewProgress::Add() {
  ++n_done_;
  added_ = clock_->Now();
  const bool is_news = n_done_ == 1 && style_ == ProgressStyle::kLog && Left() > kLogInterval &&
                       expected_ == absl::InfiniteDuration();
  if (is_news || clock_->Now() >= next_) Print();
}

void ViewProgress::Refresh() {
  if (clock_->Now() >= next_) Print();
}

void ViewProgress::Print() {
  next_ = clock_->Now() + (style_ == ProgressStyle::kLog ? kLogInterval : kInterval);
  const bool is_known = Left() < absl::InfiniteDuration();
  if (style_ == ProgressStyle::kJson) {
    JsonObject line;
    line["event"] = what_;
    line["view"] = n_done_;
    line["views"] = n_views_;
    if (is_known) line["seconds_left"] = JsonNumber(absl::ToDoubleSeconds(Left()));
    fmt::print(out_, "{}", JsonLine(line));
  } else {
    const bool terminal = style_ == ProgressStyle::kTerminal;
    const std::string left =
        is_known ? fmt::format(", about {} left", ClockText(absl::ToDoubleSeconds(Left()))) : "";
    fmt::print(out_, "{}{}: {} of {} views{}{}", terminal ? "\r" : "", what_, n_done_, n_views_,
               left, terminal ? "\x1b[K" : "\n");
  }
  std::fflush(out_);
}

absl::Duration ViewProgress::Left() const {
  const absl::Duration left = n_done_ == 0 ? expected_
                                           : (added_ - begin_) / static_cast<double>(n_done_) *
                                                 static_cast<double>(n_views_ - n_done_);
  return std::max(left - (clock_->Now() - added_), absl::ZeroDuration());
}

ProgressStyle ConsoleStyle(bool json) {
  if (json) return ProgressStyle::kJson;
  return isatty(STDERR_FILENO) == 1 ? ProgressStyle::kTerminal : ProgressStyle::kLog;
}

std::FILE* ConsoleStream(ProgressStyle style) {
  return style == ProgressStyle::kJson ? stdout : stderr;
}

}  // namespace nerf
