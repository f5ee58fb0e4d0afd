#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

namespace nerf {

inline constexpr std::string_view kAutoStart = "auto";  // in place of a start: the best that fits
inline constexpr std::string_view kNoStart = "none";    // from scratch, whatever there is

// How well a model suits as the start of a training; of what fits, the greatest is taken.
struct StartRank {
  bool same_capture = false;  // trained on the same photographs
  bool same_kind = false;     // trained on a scene of the same kind
  double n_samples = 0;       // that it was trained with; 0: not known

  auto operator<=>(const StartRank&) const = default;
};

// Why a start was taken, in one line: "trained on the same capture with 40.0 M samples; of 3
// models, 2 can be taken over". `noun`: what they are, in the singular.
std::string StartReason(const StartRank& chosen, size_t n_fitting, size_t n_all,
                        std::string_view noun);

}  // namespace nerf
