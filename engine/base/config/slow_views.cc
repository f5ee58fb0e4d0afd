#include "engine/base/config/slow_views.h"

#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kLong = absl::Seconds(5);
// Share of the grid from which on the occupied space is named as the reason; mic after 50 steps had
// 0.36.
constexpr double kMostlyOccupied = 0.3;

}  // namespace

std::string SlowViewsReason(absl::Duration expected, std::optional<double> occupied_share) {
  if (expected < kLong || occupied_share.value_or(0) < kMostlyOccupied) return "";
  return fmt::format(
      "views are slow because the model is barely trained: {:.0f}% of its space still counts as "
      "occupied, so rays skip little of it",
      100 * *occupied_share);
}

}  // namespace nerf
