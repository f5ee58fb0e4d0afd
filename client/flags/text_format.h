#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace nerf {

// Makes text from elsewhere safe for a terminal: control characters (escape sequences, line ends)
// and invalid UTF-8 become '?'.
std::string PlainText(std::string_view text);

// PlainText of each line; all lines but the first are indented by two blanks.
std::string PlainLines(std::string_view text);

// Width of `text` in columns, one per code point.
size_t DisplayWidth(std::string_view text);

// "0 B", "812 B", "3.4 MB", "1.2 GB" (powers of ten).
std::string FormatBytes(double bytes);
// "950", "12.4k", "3.2M", "1.5G".
std::string FormatCount(double count);
// "5s", "12m", "3h", "4d"; "-" when unknown (zero time) or in the future by more than a minute.
std::string FormatAge(absl::Time then, absl::Time now);
// A fraction of 0 to 1 in percent, rounded down, so that only the end is 100.
int WholePercent(double fraction);
// "0:48", "12:05", "1:02:03"; "-" when not positive or not finite.
std::string FormatClock(double seconds);

}  // namespace nerf
