#pragma once

#include <optional>
#include <vector>

namespace nerf {

// In pixels of a picture; right and bottom are exclusive.
struct LabelBox {
  double left = 0, top = 0, right = 0, bottom = 0;

  bool Contains(double x, double y) const {
    return x >= left && x < right && y >= top && y < bottom;
  }
  bool Overlaps(const LabelBox& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// Finds places for the numbers of a crowded map, so that no two overlap and none hides what it
// belongs to.
class LabelPlacer {
 public:
  // A square map of this many pixels a side.
  explicit LabelPlacer(double side) : side_(side) {}

  // No label will hide this point.
  void Keep(double x, double y) { kept_.push_back({x, y}); }
  // Labels hide this point only where there is no other place.
  void Spare(double x, double y) { spared_.push_back({x, y}); }

  // The place of a label near (x, y), in this direction from it if there is room, else around it.
  // nullopt where all places are taken. The direction's length does not matter.
  std::optional<LabelBox> Place(double x, double y, double toward_x, double toward_y, double width,
                                double height);

 private:
  struct Point {
    double x = 0, y = 0;
  };

  bool IsFree(const LabelBox& box) const;
  size_t CountSpared(const LabelBox& box) const;

  const double side_;
  std::vector<Point> kept_, spared_;
  std::vector<LabelBox> placed_;
};

}  // namespace nerf
