#include "client/flags/text_format.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace nerf {
namespace {

// Length of the UTF-8 sequence at the beginning of `text`, 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string Scaled(double value, double base, const char* const (&units)[6]) {
  size_t unit = 0;
  // 999.95 would print as 1000.0 of the smaller unit.
  while (unit + 1 < std::size(units) && value >= (unit == 0 ? base : 0.99995 * base)) {
    value /= base;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0])
                   : fmt::format("{:.1f}{}", value, units[unit]);
}

}  // namespace

std::string PlainText(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    const bool control =
        length <= 1
            ? length == 0 || lead < 0x20 || lead == 0x7F
            // U+0080 to U+009F, and the marks that reorder text on screen.
            : (lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) ||
                  (text.substr(0, 2) == "\xE2\x80" && static_cast<unsigned char>(text[2]) >= 0xA8 &&
                   static_cast<unsigned char>(text[2]) <= 0xAE) ||
                  (text.substr(0, 2) == "\xE2\x81" && static_cast<unsigned char>(text[2]) >= 0xA6 &&
                   static_cast<unsigned char>(text[2]) <= 0xA9);
    if (control) {
      plain += '?';
    } else {
      plain += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return plain;
}

std::string PlainLines(std::string_view text) {
  std::string lines;
  while (true) {
    const size_t end = text.find('\n');
    lines += PlainText(text.substr(0, end));
    if (end == std::string_view::npos || end + 1 == text.size()) return lines;
    lines += "\n  ";
    text.remove_prefix(end + 1);
  }
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

std::string FormatBytes(double bytes) {
  if (!(bytes >= 0) || !std::isfinite(bytes)) return "-";
  static constexpr const char* kUnits[] = {" B", " kB", " MB", " GB", " TB", " PB"};
  return Scaled(bytes, 1000, kUnits);
}

std::string FormatCount(double count) {
  if (!(count >= 0) || !std::isfinite(count)) return "-";
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  return Scaled(count, 1000, kUnits);
}

std::string FormatAge(absl::Time then, absl::Time now) {
  const absl::Duration age = now - then;
  if (then == absl::UnixEpoch() || age < -absl::Minutes(1)) return "-";
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(age));
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 120 * 60) return fmt::format("{}m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

int WholePercent(double fraction) {
  return static_cast<int>(std::floor(100 * std::clamp(fraction, 0.0, 1.0)));
}

std::string FormatClock(double seconds) {
  if (!(seconds > 0) || seconds > 1e9) return "-";
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace nerf
