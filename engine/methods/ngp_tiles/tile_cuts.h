#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/aabb.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"

namespace nerf {

// A plane at right angles to an axis.
struct TileCut {
  int axis = 0;  // 0 to 2
  float position = 0;
  bool operator==(const TileCut&) const = default;
};

// Space cut in halves n times: 2^n tiles, which are boxes; the outer ones are unbounded. In the
// training frame. Cuts form a binary tree, stored as a heap: cut i divides space into two halves,
// which cuts 2 i + 1 (below its position) and 2 i + 2 (above) divide again. The halves of the last
// cuts are the tiles, in order.
class TileCuts {
 public:
  // Requires: 2^n - 1 cuts.
  explicit TileCuts(std::vector<TileCut> cuts);

  // Cuts each part at the median of the points in it, along the axis in which they reach furthest.
  // A part without points is cut through the middle of `box`.
  static TileCuts AtMedians(int n_tiles, const Aabb& box, std::vector<Vec3> points);

  int n_tiles() const { return static_cast<int>(boxes_.size()); }
  const std::vector<TileCut>& cuts() const { return cuts_; }
  // Each tile's box; sides without an end are at +-kEndless.
  static constexpr float kEndless = 1e30f;
  const std::vector<Aabb>& boxes() const { return boxes_; }

  // The tile that a point lies in: the one with weight 1 where there is no margin.
  int TileAt(Vec3 point) const;
  // Weights [n_tiles] of the tiles at a point; their sum is 1. Across a cut they change linearly
  // between `margin` below it and `margin` above it. margin 0: one tile has weight 1.
  void Weights(Vec3 point, float margin, float* weights) const;

  bool operator==(const TileCuts& other) const { return cuts_ == other.cuts_; }

 private:
  std::vector<TileCut> cuts_;
  std::vector<Aabb> boxes_;
};

// `box` with `margin` more on all sides, as far as it lies in `outer`. Empty (max < min) where it
// does not.
Aabb TileReach(const Aabb& box, float margin, const Aabb& outer);

// Whether a ray meets a box between its t_near and t_far. *enter, *exit: where, unless null.
bool Meets(const Ray& ray, const Aabb& box, float* enter = nullptr, float* exit = nullptr);

}  // namespace nerf
