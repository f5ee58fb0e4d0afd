#include "common/amount.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"

namespace nerf {

std::optional<double> ParseAmount(std::string_view text) {
  std::string decimal(text);
  for (const auto& [letter, exponent] :
       {std::pair{'k', "e3"}, {'K', "e3"}, {'M', "e6"}, {'G', "e9"}}) {
    // Let the parser apply the exponent: 4.1 * 1e6 is no whole number in doubles.
    if (text.size() > 1 && text.back() == letter) decimal.replace(text.size() - 1, 1, exponent);
  }
  double number = 0;
  if (!absl::SimpleAtod(decimal, &number) || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<absl::Duration> ParseTimeSpan(std::string_view text) {
  const std::string word(text);
  absl::Duration span;
  if (double seconds = 0; absl::SimpleAtod(word, &seconds)) {
    span = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(word, &span)) {
    return std::nullopt;
  }
  // The upper bound also refuses "inf" and NaN.
  if (!(span > absl::ZeroDuration() && span <= absl::Hours(24 * 365))) return std::nullopt;
  return span;
}

}  // namespace nerf
