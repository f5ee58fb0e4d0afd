#include "client/show/progress_display.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "client/flags/text_format.h"
#include "client/show/error_printer.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
constexpr absl::Duration kPlainInterval = absl::Seconds(5);
constexpr double kPlainFraction = 0.05;
constexpr absl::Duration kPlainMinInterval =
    absl::Seconds(1);  // between lines, at any rate of progress
constexpr int kMinBarColumns = 8, kMaxBarColumns = 30;

// The first `columns` code points.
std::string Cut(const std::string& text, size_t columns) {
  size_t width = 0, i = 0;
  for (; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 && ++width > columns) break;
  }
  return text.substr(0, i);
}

std::string PlainLine(const ProgressLine& line) {
  return fmt::format("{}  {:3d}%{}{}\n", line.label, WholePercent(line.fraction),
                     line.details.empty() ? "" : "  ", line.details);
}

}  // namespace

ProgressDisplay::ProgressDisplay(const Io& io, ProgressMode mode) : io_(io), mode_(mode) {}

ProgressDisplay::~ProgressDisplay() { Clear(); }

std::string ProgressDisplay::BarText(const ProgressLine& line) const {
  const std::string percent = fmt::format("{:3d}%", WholePercent(line.fraction));
  // Two blanks between the parts. One column stays free, so that the line does not wrap.
  const int others =
      static_cast<int>(DisplayWidth(line.label) + percent.size() + DisplayWidth(line.details)) + 2 +
      1 + 2 + 1;
  const int columns = std::clamp(io_.columns - others, kMinBarColumns, kMaxBarColumns);
  const int full = static_cast<int>(std::floor(columns * std::clamp(line.fraction, 0.0, 1.0)));
  std::string bar;
  for (int i = 0; i < columns; ++i) {
    if (io_.unicode) {
      bar += i < full ? "\u2501" : "\u2500";
    } else {
      bar += i < full ? '#' : '-';
    }
  }
  return Cut(fmt::format("{}  {} {}  {}", line.label, bar, percent, line.details),
             static_cast<size_t>(std::max(1, io_.columns - 1)));
}

void ProgressDisplay::Update(const ProgressLine& line) {
  last_ = line;
  last_.label = PlainText(line.label);
  last_.details = PlainText(line.details);
  pending_ = true;
  if (mode_ == ProgressMode::kNone) return;
  const SteadyTime now = io_.clock->Now();
  if (mode_ == ProgressMode::kJson) {
    if (!line.json.empty()) *io_.err << line.json << '\n' << std::flush;
    return;
  }
  const absl::Duration since = now - shown_at_;
  if (mode_ == ProgressMode::kBar) {
    if (shown_once_ && since < kBarInterval) return;
    *io_.err << "\r\x1b[K" << BarText(last_) << std::flush;
    drawn_ = true;
  } else {
    if (shown_once_ && since < kPlainInterval &&
        (since < kPlainMinInterval || std::abs(line.fraction - shown_fraction_) < kPlainFraction)) {
      return;
    }
    *io_.err << PlainLine(last_) << std::flush;
  }
  pending_ = false;
  shown_once_ = true;
  shown_at_ = now;
  shown_fraction_ = line.fraction;
}

void ProgressDisplay::Say(std::string_view line) {
  if (mode_ == ProgressMode::kNone) return;
  if (mode_ == ProgressMode::kJson) {
    *io_.err << LineJson("note", line) << '\n' << std::flush;
    return;
  }
  if (drawn_) *io_.err << "\r\x1b[K";
  *io_.err << PlainText(line) << '\n';
  if (drawn_) *io_.err << BarText(last_);
  *io_.err << std::flush;
}

void ProgressDisplay::Finish() {
  if (mode_ == ProgressMode::kBar && (drawn_ || pending_)) {
    *io_.err << "\r\x1b[K" << BarText(last_) << '\n' << std::flush;
  } else if (mode_ == ProgressMode::kPlain && pending_) {
    *io_.err << PlainLine(last_) << std::flush;
  }
  drawn_ = pending_ = false;
}

void ProgressDisplay::Clear() {
  if (drawn_) *io_.err << "\r\x1b[K" << std::flush;
  drawn_ = pending_ = false;
}

}  // namespace nerf
