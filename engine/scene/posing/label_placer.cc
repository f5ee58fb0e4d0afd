#include "engine/scene/posing/label_placer.h"

#include <algorithm>
#include <cmath>

namespace nerf {
namespace {

constexpr double kLabelGap = 5;  // pixels; digits of a number are 2 apart
constexpr double kGap = 2;       // between a label and a point that it must not hide
constexpr double kDistances[] = {5, 11, 18, 26};  // from the point to the label's border
constexpr int kDirections = 16;

LabelBox Widened(const LabelBox& box, double by) {
  return {box.left - by, box.top - by, box.right + by, box.bottom + by};
}

}  // namespace

bool LabelPlacer::IsFree(const LabelBox& box) const {
  // NaN is outside.
  if (!(box.left >= 0 && box.top >= 0 && box.right <= side_ && box.bottom <= side_)) return false;
  const LabelBox wide = Widened(box, kGap), wider = Widened(box, kLabelGap);
  return std::none_of(placed_.begin(), placed_.end(),
                      [&](const LabelBox& other) { return wider.Overlaps(other); }) &&
         std::none_of(kept_.begin(), kept_.end(),
                      [&](const Point& point) { return wide.Contains(point.x, point.y); });
}

size_t LabelPlacer::CountSpared(const LabelBox& box) const {
  return static_cast<size_t>(std::count_if(spared_.begin(), spared_.end(), [&](const Point& point) {
    return box.Contains(point.x, point.y);
  }));
}

std::optional<LabelBox> LabelPlacer::Place(double x, double y, double toward_x, double toward_y,
                                           double width, double height) {
  const double begin = std::atan2(toward_y, toward_x);
  std::optional<LabelBox> best;
  size_t fewest = 0;
  for (const double distance : kDistances) {
    for (int i = 0; i < kDirections; ++i) {
      // To one side and the other in turn: 0, 1, -1, 2, -2, ...
      const int step = i % 2 == 1 ? (i + 1) / 2 : -i / 2;
      const double angle = begin + step * 2 * M_PI / kDirections;
      const double along = std::cos(angle), down = std::sin(angle);
      // From the label's center to its border in this direction.
      const double half = std::min(width / 2 / std::max(1e-9, std::abs(along)),
                                   height / 2 / std::max(1e-9, std::abs(down)));
      const double center_x = x + along * (distance + half);
      const double center_y = y + down * (distance + half);
      const double left = std::floor(center_x - width / 2);
      const double top = std::floor(center_y - height / 2);
      const LabelBox box = {left, top, left + width, top + height};
      if (!IsFree(box)) continue;
      const size_t n_hidden = CountSpared(box);
      if (!best.has_value() || n_hidden < fewest) best = box, fewest = n_hidden;
      if (n_hidden == 0) break;
    }
    if (best.has_value() && fewest == 0) break;
  }
  if (best.has_value()) placed_.push_back(*best);
  return best;
}

}  // namespace nerf
