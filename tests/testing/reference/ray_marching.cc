#include "tests/testing/reference/ray_marching.h"

#include <algorithm>
#include <cmath>

namespace nerf::reference {
namespace {

struct Span {
  double enter, exit;
};

Span ClipToBox(const Aabb& box, const Ray& ray) {
  Span span{ray.t_near, ray.t_far};
  for (int axis = 0; axis < 3; ++axis) {
    const double o = ray.origin[axis], d = ray.direction[axis];
    if (d == 0) {
      if (o < box.min[axis] || o > box.max[axis]) return {1, 0};
      continue;
    }
    const double a = (box.min[axis] - o) / d, b = (box.max[axis] - o) / d;
    span.enter = std::max(span.enter, std::min(a, b));
    span.exit = std::min(span.exit, std::max(a, b));
  }
  return span;
}

// The place `jitter` steps behind t: t grows by `step` a step up to step / cone, from there on by
// the factor 1 + cone.
double Shift(double t, double step, double cone, double jitter) {
  if (cone == 0) return t + jitter * step;
  const double turn = step / cone;
  if (t >= turn) return t * std::pow(1 + cone, jitter);
  const double to_turn = (turn - t) / step;
  if (jitter <= to_turn) return t + jitter * step;
  return turn * std::pow(1 + cone, jitter - to_turn);
}

}  // namespace

std::vector<LatticeInterval> MarchLattice(const OccupancyGrid& grid, double step, double cone,
                                          const Ray& ray, double jitter) {
  const Aabb outer = grid.box.Scaled(static_cast<float>(1 << (grid.n_levels - 1)));
  const Span span = ClipToBox(outer, ray);
  std::vector<LatticeInterval> intervals;
  if (span.enter >= span.exit) return intervals;
  const double half0 = 0.5 * grid.box.Size().x;
  double t = Shift(span.enter, step, cone, jitter);
  while (true) {
    const double delta = std::max(step, t * cone), middle = t + 0.5 * delta;
    if (middle >= span.exit) return intervals;
    double p[3], reach = 0;
    for (int axis = 0; axis < 3; ++axis) {
      p[axis] = ray.origin[axis] + middle * ray.direction[axis] - grid.box.Center()[axis];
      reach = std::max(reach, std::abs(p[axis]) / half0);
    }
    int level = 0;
    while (level + 1 < grid.n_levels && reach > (1 << level)) ++level;
    const double half = half0 * (1 << level), cell_size = 2 * half / grid.resolution;
    int cell[3];
    double margin = (span.exit - middle) / delta;
    for (int axis = 0; axis < 3; ++axis) {
      const double scaled = (p[axis] + half) / cell_size;
      cell[axis] = std::clamp(static_cast<int>(std::floor(scaled)), 0, grid.resolution - 1);
      const double to_face = std::abs(scaled - std::round(scaled)) * cell_size;
      margin = std::min(margin, to_face / delta);
    }
    intervals.push_back({middle, delta, grid.Occupied(level, cell[0], cell[1], cell[2]), margin});
    t += delta;
  }
}

}  // namespace nerf::reference
