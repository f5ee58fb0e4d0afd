#pragma once

#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace nerf {

// A finite number as people write large ones: 40000000, 4e7, 40M, 300k or 300K, 1.5G. The number is
// the double nearest to what is written, so that 4.1M is whole. nullopt for other text.
std::optional<double> ParseAmount(std::string_view text);

// A time above 0 and of at most a year: 90 (seconds), 90s, 5m, 1h30m. nullopt for other text.
std::optional<absl::Duration> ParseTimeSpan(std::string_view text);

}  // namespace nerf
