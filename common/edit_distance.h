#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nerf {

// Letters to insert, delete, replace or exchange with their neighbor to turn one word into the
// other, none of them twice (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that `word` most likely misspells: the nearest by EditDistance, the first one if
// several are. Empty if more than a third of the letters would have to change; one always may.
std::string NearestWord(std::string_view word, std::span<const std::string> candidates);

// "; did you mean train?", or "" if no candidate is near.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

// "'npg' is not one of ngp, mlp; did you mean ngp?", the word cut to 64 bytes.
std::string NotOneOf(std::string_view word, std::span<const std::string_view> known);

}  // namespace nerf
