#include "engine/methods/ngp_tiles/tile_cuts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "engine/base/check.h"

namespace nerf {
namespace {

// The k-th smallest coordinate. Reorders the points.
float Smallest(std::span<Vec3> points, size_t k, int axis) {
  std::nth_element(points.begin(), points.begin() + static_cast<ptrdiff_t>(k), points.end(),
                   [axis](Vec3 a, Vec3 b) { return a[axis] < b[axis]; });
  return points[k][axis];
}

// Where the points reach furthest, but for a tenth of them at either end.
int WidestAxis(std::span<Vec3> points) {
  int widest = 0;
  float width = -1;
  for (int axis = 0; axis < 3; ++axis) {
    const size_t n = points.size();
    const float low = Smallest(points, n / 10, axis);
    const float high = Smallest(points, n - 1 - n / 10, axis);
    if (high - low > width) {
      width = high - low;
      widest = axis;
    }
  }
  return widest;
}

// Cuts the points of node i, and then its halves.
void Cut(size_t i, const Aabb& box, std::span<Vec3> points, std::vector<TileCut>* cuts) {
  if (i >= cuts->size()) return;
  TileCut& cut = (*cuts)[i];
  size_t n_below = 0;
  if (points.empty()) {
    const Vec3 size = box.Size();
    cut.axis = size.x >= size.y && size.x >= size.z ? 0 : size.y >= size.z ? 1 : 2;
    cut.position = box.Center()[cut.axis];
  } else {
    n_below = points.size() / 2;
    cut.axis = WidestAxis(points);
    cut.position = Smallest(points, n_below, cut.axis);
  }
  Aabb below = box, above = box;
  below.max[cut.axis] = above.min[cut.axis] = cut.position;
  Cut(2 * i + 1, below, points.subspan(0, n_below), cuts);
  Cut(2 * i + 2, above, points.subspan(n_below), cuts);
}

}  // namespace

TileCuts::TileCuts(std::vector<TileCut> cuts) : cuts_(std::move(cuts)) {
  const size_t n_tiles = cuts_.size() + 1;
  NERF_CHECK(std::has_single_bit(n_tiles));
  constexpr Aabb kAll = {{-kEndless, -kEndless, -kEndless}, {kEndless, kEndless, kEndless}};
  std::vector<Aabb> nodes(cuts_.size() + n_tiles, kAll);
  for (size_t i = 0; i < cuts_.size(); ++i) {
    const TileCut& cut = cuts_[i];
    nodes[2 * i + 1] = nodes[2 * i + 2] = nodes[i];
    nodes[2 * i + 1].max[cut.axis] = nodes[2 * i + 2].min[cut.axis] = cut.position;
  }
  boxes_.assign(nodes.end() - static_cast<ptrdiff_t>(n_tiles), nodes.end());
}

TileCuts TileCuts::AtMedians(int n_tiles, const Aabb& box, std::vector<Vec3> points) {
  std::vector<TileCut> cuts(n_tiles - 1);
  Cut(0, box, points, &cuts);
  return TileCuts(std::move(cuts));
}

int TileCuts::TileAt(Vec3 point) const {
  size_t i = 0;
  while (i < cuts_.size()) i = 2 * i + (point[cuts_[i].axis] - cuts_[i].position >= 0 ? 2 : 1);
  return static_cast<int>(i - cuts_.size());
}

void TileCuts::Weights(Vec3 point, float margin, float* weights) const {
  // Depth after depth, from the root on; in place, from the last node of a depth to the first.
  weights[0] = 1;
  size_t first = 0;
  for (size_t n = 1; first < cuts_.size(); first += n, n *= 2) {
    for (size_t i = n; i-- > 0;) {
      const TileCut& cut = cuts_[first + i];
      const float over = point[cut.axis] - cut.position;
      const float above = margin > 0 ? std::clamp(0.5f + over / (2 * margin), 0.0f, 1.0f)
                                     : (over >= 0 ? 1.0f : 0.0f);
      const float weight = weights[i];
      weights[2 * i] = weight * (1 - above);
      weights[2 * i + 1] = weight * above;
    }
  }
}

Aabb TileReach(const Aabb& box, float margin, const Aabb& outer) {
  Aabb reach;
  for (int axis = 0; axis < 3; ++axis) {
    reach.min[axis] = std::max(box.min[axis] - margin, outer.min[axis]);
    reach.max[axis] = std::min(box.max[axis] + margin, outer.max[axis]);
  }
  return reach;
}

bool Meets(const Ray& ray, const Aabb& box, float* enter, float* exit) {
  float t_enter = ray.t_near, t_exit = ray.t_far;
  for (int axis = 0; axis < 3; ++axis) {
    const float d = ray.direction[axis];
    // Finite instead of 1 / 0, because 0 * infinity is NaN.
    const float inverse = std::abs(d) > 1e-12f ? 1.0f / d : (d < 0 ? -1e12f : 1e12f);
    const float a = (box.min[axis] - ray.origin[axis]) * inverse;
    const float b = (box.max[axis] - ray.origin[axis]) * inverse;
    t_enter = std::max(t_enter, std::min(a, b));
    t_exit = std::min(t_exit, std::max(a, b));
    if (box.max[axis] < box.min[axis]) return false;
  }
  if (enter != nullptr) *enter = t_enter;
  if (exit != nullptr) *exit = t_exit;
  return t_enter <= t_exit;
}

}  // namespace nerf
