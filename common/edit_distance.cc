#include "common/edit_distance.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {

size_t EditDistance(std::string_view a, std::string_view b) {
  // Distances of the first i letters of a, the first i - 1 and the first i - 2, from the first j of
  // b.
  std::vector<size_t> row(b.size() + 1), above(b.size() + 1), second_above(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    second_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], second_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string NearestWord(std::string_view word, std::span<const std::string> candidates) {
  // One of up to five letters, two of up to eight, and so on.
  size_t fewest = std::max<size_t>(word.size() / 3, 1);
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance >= candidate.size() || distance > fewest ||
        (distance == fewest && !nearest.empty()))
      continue;
    fewest = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string> candidates) {
  const std::string nearest = NearestWord(word, candidates);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

std::string NotOneOf(std::string_view word, std::span<const std::string_view> known) {
  constexpr size_t kMaxShown = 64;
  word = word.substr(0, kMaxShown);
  const std::vector<std::string> candidates(known.begin(), known.end());
  return fmt::format("'{}' is not one of {}{}", word, fmt::join(known, ", "),
                     DidYouMean(word, candidates));
}

}  // namespace nerf
