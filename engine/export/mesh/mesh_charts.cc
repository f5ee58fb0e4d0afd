#include "engine/export/mesh/mesh_charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace nerf {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
// Cosines between a chart's normal and those of its triangles: the smooth one while it grows, any
// when it takes what was left, and the triangle's own.
constexpr float kSmoothCosine = 0.5f, kAnyCosine = -1, kOwnCosine = 0.1f;
// A closed shape has about so many charts at least, by the areas of their largest discs.
constexpr float kMinCharts = 24;
// Charts of fewer triangles join a neighbor, if both fit one plane; so often all are tried.
constexpr size_t kSmallChart = 64;
constexpr int kJoinRounds = 4;
constexpr double kMaxOverlap = 1e-7;  // of a cell: what rounding makes of triangles side by side

struct PlanePoint {
  double x = 0, y = 0;
};
using PlaneCorners = std::array<PlanePoint, 3>;

// Whether all corners of `other` are on the right of a side of `one`, both counterclockwise.
bool HasSeparatingSide(const PlaneCorners& one, const PlaneCorners& other, double tolerance) {
  for (size_t i = 0; i < 3; ++i) {
    const PlanePoint& a = one[i];
    const PlanePoint& b = one[(i + 1) % 3];
    const double dx = b.x - a.x, dy = b.y - a.y;
    const double most = tolerance * std::hypot(dx, dy);
    const bool separates = std::all_of(other.begin(), other.end(), [&](const PlanePoint& p) {
      return dx * (p.y - a.y) - dy * (p.x - a.x) <= most;
    });
    if (separates) return true;
  }
  return false;
}

// Two axes that are orthogonal to a normal and each other.
std::array<Vec3, 2> PlaneOf(Vec3 normal) {
  const Vec3 other = std::abs(normal.z) < 0.7f ? Vec3{0, 0, 1} : Vec3{0, 1, 0};
  const Vec3 right = Normalized(Cross(other, normal));
  return {right, Cross(normal, right)};
}

// What is known of each triangle.
struct Facets {
  std::vector<Vec3> centers, own, smooth;  // normals of unit length, (0, 0, 0) where there is none
  std::vector<float> areas;
  std::vector<std::array<uint32_t, 3>> neighbors;  // over the side behind each corner, or kNone

  explicit Facets(const TriangleMesh& mesh) {
    const auto unit = [](Vec3 v) { return Norm(v) > 0 ? Normalized(v) : Vec3{0, 0, 0}; };
    struct Side {
      uint32_t low, high, triangle, corner;
    };
    std::vector<Side> sides;
    for (uint32_t i = 0; i < mesh.n_triangles(); ++i) {
      const uint32_t* const v = mesh.indices.data() + 3 * size_t{i};
      const Vec3 a = mesh.positions[v[0]], b = mesh.positions[v[1]], c = mesh.positions[v[2]];
      const Vec3 normal = Cross(b - a, c - a);
      centers.push_back((a + b + c) * (1.0f / 3));
      own.push_back(unit(normal));
      smooth.push_back(unit(mesh.normals[v[0]] + mesh.normals[v[1]] + mesh.normals[v[2]]));
      areas.push_back(0.5f * Norm(normal));
      for (uint32_t k = 0; k < 3; ++k) {
        const uint32_t from = v[k], to = v[(k + 1) % 3];
        sides.push_back({std::min(from, to), std::max(from, to), i, k});
      }
    }
    std::sort(sides.begin(), sides.end(), [](const Side& a, const Side& b) {
      return std::tie(a.low, a.high, a.triangle, a.corner) <
             std::tie(b.low, b.high, b.triangle, b.corner);
    });
    neighbors.assign(mesh.n_triangles(), {kNone, kNone, kNone});
    for (size_t i = 1; i < sides.size(); ++i) {
      const Side& a = sides[i - 1];
      const Side& b = sides[i];
      if (a.low != b.low || a.high != b.high || a.triangle == b.triangle) continue;
      neighbors[a.triangle][a.corner] = b.triangle;
      neighbors[b.triangle][b.corner] = a.triangle;
      ++i;  // a third triangle of a side is no neighbor
    }
  }
};

// The triangles of a chart in its plane.
class ChartPlane {
 public:
  // cell: about the length of a side.
  ChartPlane(const TriangleMesh& mesh, const Facets& facets, Vec3 normal, double cell)
      : mesh_(mesh), facets_(facets), normal_(normal), axes_(PlaneOf(normal)), cell_(cell) {}

  // Whether the triangle is not turned over and overlaps none.
  bool Fits(uint32_t triangle, float smooth_cosine) const {
    const bool has_own = Norm(facets_.own[triangle]) > 0;
    if (has_own && Dot(facets_.own[triangle], normal_) < kOwnCosine) return false;
    if (Dot(facets_.smooth[triangle], normal_) < smooth_cosine) return false;
    if (!has_own) return true;  // it covers nothing
    const PlaneCorners corners = FlatCornersOf(triangle);
    return VisitCells(corners, [&](uint64_t key) {
      const auto found = cells_.find(key);
      return found == cells_.end() ||
             std::none_of(found->second.begin(), found->second.end(),
                          [&](uint32_t other) { return Overlap(corners, FlatCornersOf(other)); });
    });
  }

  void Add(uint32_t triangle) {
    triangles_.push_back(triangle);
    if (Norm(facets_.own[triangle]) == 0) return;
    VisitCells(FlatCornersOf(triangle), [&](uint64_t key) {
      cells_[key].push_back(triangle);
      return true;
    });
  }

  // Takes back the last Add.
  void RemoveLast() {
    const uint32_t triangle = triangles_.back();
    triangles_.pop_back();
    if (Norm(facets_.own[triangle]) == 0) return;
    VisitCells(FlatCornersOf(triangle), [&](uint64_t key) {
      cells_[key].pop_back();
      return true;
    });
  }

  const std::vector<uint32_t>& triangles() const { return triangles_; }
  const std::array<Vec3, 2>& axes() const { return axes_; }
  void Clear() {
    triangles_.clear();
    cells_.clear();
  }

 private:
  PlaneCorners FlatCornersOf(uint32_t triangle) const {
    PlaneCorners corners;
    for (size_t k = 0; k < 3; ++k) {
      const Vec3 p = mesh_.positions[mesh_.indices[3 * size_t{triangle} + k]];
      corners[k] = {Along(axes_[0], p), Along(axes_[1], p)};
    }
    return corners;
  }

  static double Along(Vec3 axis, Vec3 p) {
    return double{axis.x} * p.x + double{axis.y} * p.y + double{axis.z} * p.z;
  }

  bool Overlap(const PlaneCorners& one, const PlaneCorners& other) const {
    const double tolerance = kMaxOverlap * cell_;
    return !HasSeparatingSide(one, other, tolerance) && !HasSeparatingSide(other, one, tolerance);
  }

  // Calls visit with each cell that the triangle may touch, until it returns false. Returns what
  // the last call did.
  template <typename Visit>
  bool VisitCells(const PlaneCorners& corners, const Visit& visit) const {
    const auto [x0, x1] = std::minmax({corners[0].x, corners[1].x, corners[2].x});
    const auto [y0, y1] = std::minmax({corners[0].y, corners[1].y, corners[2].y});
    const auto number = [&](double along) { return std::llround(std::floor(along / cell_)); };
    for (int64_t y = number(y0); y <= number(y1); ++y) {
      for (int64_t x = number(x0); x <= number(x1); ++x) {
        const uint64_t key = static_cast<uint64_t>(y) << 32 | static_cast<uint32_t>(x);
        if (!visit(key)) return false;
      }
    }
    return true;
  }

  const TriangleMesh& mesh_;
  const Facets& facets_;
  const Vec3 normal_;
  const std::array<Vec3, 2> axes_;
  const double cell_;
  std::vector<uint32_t> triangles_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> cells_;
};

// Grows the charts of a mesh.
class ChartGrower {
 public:
  explicit ChartGrower(const TriangleMesh& mesh)
      : mesh_(mesh),
        facets_(mesh),
        chart_of_(mesh.n_triangles(), kNone),
        visited_(mesh.n_triangles(), 0) {
    const double area = std::accumulate(facets_.areas.begin(), facets_.areas.end(), 0.0);
    const double n = static_cast<double>(std::max<size_t>(1, mesh.n_triangles()));
    cell_ = std::max(1e-12, 2 * std::sqrt(area / n));
    max_radius_ = static_cast<float>(std::sqrt(area / (3.14159 * kMinCharts)));
  }

  std::vector<MeshChart> Run() {
    for (uint32_t seed = 0; seed < chart_of_.size(); ++seed) {
      if (chart_of_[seed] == kNone) Grow(seed);
    }
    for (int round = 0; round < kJoinRounds; ++round) JoinSmallCharts();
    std::vector<MeshChart> charts;
    for (const ChartPlane& plane : planes_) {
      if (plane.triangles().empty()) continue;
      MeshChart& chart = charts.emplace_back();
      chart.right = plane.axes()[0];
      chart.up = plane.axes()[1];
      chart.triangles = plane.triangles();
      std::sort(chart.triangles.begin(), chart.triangles.end());
    }
    return charts;
  }

 private:
  // The mean of smooth normals around the seed is the plane's; growth in that plane is the chart.
  void Grow(uint32_t seed) {
    const Vec3 own = facets_.own[seed];
    Vec3 normal = facets_.smooth[seed];
    if (Norm(own) > 0 && Dot(normal, own) < kOwnCosine) normal = own;
    if (Norm(normal) == 0) normal = {0, 0, 1};
    Vec3 mean{0, 0, 0};
    VisitFrom(seed, [&](uint32_t triangle) {
      const Vec3 smooth = facets_.smooth[triangle];
      if (triangle != seed && Dot(smooth, normal) < kSmoothCosine) return false;
      mean = mean + smooth * facets_.areas[triangle];
      return true;
    });
    if (Norm(mean) > 0) {
      mean = Normalized(mean);
      const bool holds_seed = Dot(mean, facets_.smooth[seed]) >= kSmoothCosine &&
                              (Norm(own) == 0 || Dot(mean, own) >= kOwnCosine);
      if (holds_seed) normal = mean;
    }
    ChartPlane& plane = planes_.emplace_back(mesh_, facets_, normal, cell_);
    VisitFrom(seed, [&](uint32_t triangle) {
      if (triangle != seed && !plane.Fits(triangle, kSmoothCosine)) return false;
      plane.Add(triangle);
      return true;
    });
    const auto chart = static_cast<uint32_t>(planes_.size() - 1);
    for (const uint32_t triangle : plane.triangles()) chart_of_[triangle] = chart;
  }

  // Offers the free triangles around the seed, the nearest first; goes on from those that are
  // taken.
  template <typename Take>
  void VisitFrom(uint32_t seed, const Take& take) {
    ++visit_;
    using Next = std::pair<float, uint32_t>;  // distance, triangle
    std::priority_queue<Next, std::vector<Next>, std::greater<>> waiting;
    const auto add = [&](uint32_t triangle) {
      if (triangle == kNone || chart_of_[triangle] != kNone || visited_[triangle] == visit_) return;
      visited_[triangle] = visit_;
      const float distance = Norm(facets_.centers[triangle] - facets_.centers[seed]);
      if (distance <= max_radius_) waiting.emplace(distance, triangle);
    };
    add(seed);
    while (!waiting.empty()) {
      const uint32_t triangle = waiting.top().second;
      waiting.pop();
      if (!take(triangle)) continue;
      for (const uint32_t neighbor : facets_.neighbors[triangle]) add(neighbor);
    }
  }

  // The smallest first, each to the neighbor with the longest common border that can hold it.
  void JoinSmallCharts() {
    std::vector<uint32_t> order(planes_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return planes_[a].triangles().size() < planes_[b].triangles().size();
    });
    for (const uint32_t chart : order) {
      const size_t n = planes_[chart].triangles().size();
      if (n == 0 || n >= kSmallChart) continue;
      for (const uint32_t other : NeighborsOf(chart)) {
        if (TryJoin(chart, other)) break;
      }
    }
  }

  std::vector<uint32_t> NeighborsOf(uint32_t chart) const {
    std::map<uint32_t, float> borders;
    for (const uint32_t triangle : planes_[chart].triangles()) {
      for (size_t k = 0; k < 3; ++k) {
        const uint32_t neighbor = facets_.neighbors[triangle][k];
        if (neighbor == kNone || chart_of_[neighbor] == chart) continue;
        const uint32_t* const v = mesh_.indices.data() + 3 * size_t{triangle};
        borders[chart_of_[neighbor]] +=
            Norm(mesh_.positions[v[k]] - mesh_.positions[v[(k + 1) % 3]]);
      }
    }
    std::vector<std::pair<float, uint32_t>> longest;
    for (const auto& [other, length] : borders) longest.emplace_back(-length, other);
    std::sort(longest.begin(), longest.end());
    std::vector<uint32_t> others;
    for (const auto& [length, other] : longest) others.push_back(other);
    return others;
  }

  // Both in a plane of their mean normal.
  bool TryCommonPlane(uint32_t chart, uint32_t other) {
    Vec3 mean{0, 0, 0};
    for (const uint32_t one : {chart, other}) {
      for (const uint32_t triangle : planes_[one].triangles())
        mean = mean + facets_.own[triangle] * facets_.areas[triangle];
    }
    if (Norm(mean) == 0) return false;
    ChartPlane common(mesh_, facets_, Normalized(mean), cell_);
    for (const uint32_t one : {chart, other}) {
      for (const uint32_t triangle : planes_[one].triangles()) {
        if (!common.Fits(triangle, kAnyCosine)) return false;
        common.Add(triangle);
      }
    }
    for (const uint32_t triangle : common.triangles())
      chart_of_[triangle] = static_cast<uint32_t>(planes_.size());
    planes_.push_back(std::move(common));
    planes_[chart].Clear();
    planes_[other].Clear();
    return true;
  }

  bool TryJoin(uint32_t chart, uint32_t other) {
    ChartPlane& plane = planes_[other];
    const size_t n_before = plane.triangles().size();
    for (const uint32_t triangle : planes_[chart].triangles()) {
      if (plane.Fits(triangle, kAnyCosine)) {
        plane.Add(triangle);
        continue;
      }
      while (plane.triangles().size() > n_before) plane.RemoveLast();
      return n_before < kSmallChart && TryCommonPlane(chart, other);
    }
    for (const uint32_t triangle : planes_[chart].triangles()) chart_of_[triangle] = other;
    planes_[chart].Clear();
    return true;
  }

  const TriangleMesh& mesh_;
  const Facets facets_;
  double cell_ = 1;
  float max_radius_ = 0;
  std::vector<uint32_t> chart_of_, visited_;  // by triangle: the last visit that met it
  uint32_t visit_ = 0;
  std::deque<ChartPlane> planes_;
};

}  // namespace

std::vector<MeshChart> ChartsOf(const TriangleMesh& mesh) { return ChartGrower(mesh).Run(); }

}  // namespace nerf
