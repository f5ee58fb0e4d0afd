#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace nerf {

// Of the values that are no NaN, the upper one of two in the middle; NaN without any.
inline double Median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace nerf
