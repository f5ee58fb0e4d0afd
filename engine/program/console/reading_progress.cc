#include "engine/program/console/reading_progress.h"

#include <cmath>
#include <cstdio>

#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kReadingInterval = absl::Seconds(2);

}  // namespace

std::optional<std::string> ReadingProgress::LineFor(std::string_view what, size_t done, size_t of) {
  const SteadyTime now = clock_->Now();
  // Training and test views are read one after the other.
  const bool is_new = what != what_ || done < last_done_ || of != last_of_;
  last_done_ = done;
  last_of_ = of;
  if (is_new) {
    what_ = what;
    begin_ = last_line_ = now;
    first_done_ = done;
    return std::nullopt;
  }
  if (now - last_line_ < kReadingInterval) return std::nullopt;
  last_line_ = now;
  std::string line = fmt::format("reading {}: {} of {}", what, done, of);
  if (done > first_done_ && of > done) {
    const double rate =
        static_cast<double>(done - first_done_) / absl::ToDoubleSeconds(now - begin_);
    line += fmt::format(", about {:.0f} s left", std::ceil(static_cast<double>(of - done) / rate));
  }
  return line;
}

void ReadingProgress::operator()(std::string_view what, size_t done, size_t of) {
  if (const std::optional<std::string> line = LineFor(what, done, of))
    fmt::print(stderr, "{}\n", *line);
}

}  // namespace nerf
