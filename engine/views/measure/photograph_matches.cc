#include "engine/views/measure/photograph_matches.h"

#include <algorithm>
#include <cmath>

#include "engine/base/median.h"

namespace nerf {
namespace {

constexpr int kHalfPatch = 4, kMargin = kHalfPatch + 1;
constexpr int kCells = 12;       // along each side, one corner each
constexpr int kNeighbors = 4;    // beside a photograph
constexpr float kReach = 0.07f;  // of the longer side: how far a patch is looked for
constexpr float kMinCorrelation = 0.85f, kMinLead = 0.05f;  // over the second best place
constexpr float kMinContrast = 1e-3f;                       // of a corner: the lesser eigenvalue
constexpr float kMinParallax = 0.03f;  // between the rays' origins, of the distance
constexpr float kMinCosine = 0.8f;     // of the turn between photographs that are matched
constexpr int kMinMatches = 12;
constexpr double kMaxScale = 0.25, kScaleStep = 0.01;

struct Match {
  int a, b;              // photographs
  float ax, ay, bx, by;  // where they show it
  float log_brightness;  // of a over b
};

float At(const DepthView& view, int x, int y) {
  return view.gray[static_cast<size_t>(y) * view.camera.width + x];
}

// The place in each cell of a grid where the picture varies most along both axes.
std::vector<std::pair<int, int>> Corners(const DepthView& view) {
  std::vector<std::pair<int, int>> corners;
  for (int cell = 0; cell < kCells * kCells; ++cell) {
    const auto begin = [&](int index, int size) {
      return kMargin + index * (size - 2 * kMargin) / kCells;
    };
    const int row = cell / kCells, column = cell % kCells;
    float best = kMinContrast;
    std::pair<int, int> at{-1, -1};
    for (int y = begin(row, view.camera.height); y < begin(row + 1, view.camera.height); y += 2) {
      for (int x = begin(column, view.camera.width); x < begin(column + 1, view.camera.width);
           x += 2) {
        float xx = 0, xy = 0, yy = 0;
        for (int v = y - 2; v <= y + 2; ++v) {
          for (int u = x - 2; u <= x + 2; ++u) {
            const float dx = At(view, u + 1, v) - At(view, u - 1, v);
            const float dy = At(view, u, v + 1) - At(view, u, v - 1);
            xx += dx * dx, xy += dx * dy, yy += dy * dy;
          }
        }
        const float half = (xx - yy) / 2;
        const float lesser = (xx + yy) / 2 - std::sqrt(half * half + xy * xy);
        if (lesser > best) best = lesser, at = {x, y};
      }
    }
    if (at.first >= 0) corners.push_back(at);
  }
  return corners;
}

// Normalized cross-correlation of two patches.
float Correlation(const DepthView& a, int ax, int ay, const DepthView& b, int bx, int by) {
  float sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0;
  for (int v = -kHalfPatch; v <= kHalfPatch; ++v) {
    for (int u = -kHalfPatch; u <= kHalfPatch; ++u) {
      const float p = At(a, ax + u, ay + v), q = At(b, bx + u, by + v);
      sa += p, sb += q, saa += p * p, sbb += q * q, sab += p * q;
    }
  }
  constexpr float kN = (2 * kHalfPatch + 1) * (2 * kHalfPatch + 1);
  const float spread = (saa - sa * sa / kN) * (sbb - sb * sb / kN);
  return spread > 1e-8f ? (sab - sa * sb / kN) / std::sqrt(spread) : 0;
}

float Brightness(const DepthView& view, int x, int y) {
  float sum = 0;
  for (int v = y - kHalfPatch; v <= y + kHalfPatch; ++v) {
    for (int u = x - kHalfPatch; u <= x + kHalfPatch; ++u) sum += At(view, u, v);
  }
  return sum / ((2 * kHalfPatch + 1) * (2 * kHalfPatch + 1));
}

// Where b shows the patch at (ax, ay) of a, near (x, y); false where that is not clear.
bool Find(const DepthView& a, int ax, int ay, const DepthView& b, float x, float y, Match* match) {
  const int reach =
      std::max(4, static_cast<int>(kReach * std::max(b.camera.width, b.camera.height)));
  const int x0 = std::max(kMargin, static_cast<int>(x) - reach);
  const int y0 = std::max(kMargin, static_cast<int>(y) - reach);
  const int x1 = std::min(b.camera.width - kMargin, static_cast<int>(x) + reach + 1);
  const int y1 = std::min(b.camera.height - kMargin, static_cast<int>(y) + reach + 1);
  if (x1 - x0 < 3 || y1 - y0 < 3) return false;
  std::vector<float> scores;
  for (int v = y0; v < y1; ++v) {
    for (int u = x0; u < x1; ++u) scores.push_back(Correlation(a, ax, ay, b, u, v));
  }
  const int width = x1 - x0;
  const auto best =
      static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  const int u = best % width, v = best / width;
  if (scores[best] < kMinCorrelation || u == 0 || v == 0 || u == width - 1 || v == y1 - y0 - 1)
    return false;
  for (int i = 0; i < static_cast<int>(scores.size()); ++i) {
    const bool is_near = std::abs(i % width - u) <= 3 && std::abs(i / width - v) <= 3;
    if (!is_near && scores[i] > scores[best] - kMinLead) return false;
  }
  const auto peak = [&](float before, float at, float after) {
    const float bend = before - 2 * at + after;
    return bend < 0 ? 0.5f * (before - after) / bend : 0.0f;
  };
  match->log_brightness =
      std::log((Brightness(a, ax, ay) + 0.01f) / (Brightness(b, x0 + u, y0 + v) + 0.01f));
  match->ax = static_cast<float>(ax) + 0.5f, match->ay = static_cast<float>(ay) + 0.5f;
  match->bx =
      static_cast<float>(x0 + u) + 0.5f + peak(scores[best - 1], scores[best], scores[best + 1]);
  match->by = static_cast<float>(y0 + v) + 0.5f +
              peak(scores[best - width], scores[best], scores[best + width]);
  return true;
}

// Photographs that look at the same from beside: near in position, and held alike.
std::vector<int> Neighbors(std::span<const DepthView> views, int of) {
  const auto& pose = views[of].camera.camera_to_world;
  std::vector<std::pair<float, int>> order;
  for (int i = 0; i < static_cast<int>(views.size()); ++i) {
    const auto& other = views[i].camera.camera_to_world;
    const bool is_alike = Dot(pose.Column(2), other.Column(2)) > kMinCosine &&
                          Dot(pose.Column(1), other.Column(1)) > kMinCosine;
    if (i != of && is_alike) order.push_back({Norm(pose.Column(3) - other.Column(3)), i});
  }
  std::sort(order.begin(), order.end());
  std::vector<int> neighbors;
  for (size_t i = 0; i < std::min<size_t>(order.size(), kNeighbors); ++i)
    neighbors.push_back(order[i].second);
  return neighbors;
}

Camera WithScale(Camera camera, double scale) {
  camera.fl_x = static_cast<float>(camera.fl_x * scale);
  camera.fl_y = static_cast<float>(camera.fl_y * scale);
  return camera;
}

// Distance of a match from its epipolar line, pixels of b; NaN where the rays begin too near each
// other to say.
double LineError(const Match& match, std::span<const DepthView> views, double scale) {
  const Camera b = WithScale(views[match.b].camera, scale);
  const Ray from = CameraRay(WithScale(views[match.a].camera, scale), match.ax, match.ay);
  const Ray to = CameraRay(b, match.bx, match.by);
  const Vec3 normal = Cross(to.origin - from.origin, from.direction);
  const float length = Norm(normal);
  if (!(length > 0)) return std::nan("");
  return std::abs(std::asin(std::clamp(Dot(normal, to.direction) / length, -1.0f, 1.0f))) * b.fl_x;
}

double MedianError(std::span<const Match> matches, std::span<const DepthView> views, double scale) {
  std::vector<double> errors;
  for (const Match& match : matches) errors.push_back(LineError(match, views, scale));
  return Median(std::move(errors));
}

}  // namespace

MatchErrors MatchPhotographs(std::span<const DepthView> views, ThreadPool* pool) {
  std::vector<std::vector<Match>> found(views.size());
  pool->ParallelFor(static_cast<int64_t>(views.size()), [&](int64_t i, int) {
    const DepthView& a = views[i];
    if (std::min(a.camera.width, a.camera.height) < 4 * kMargin) return;
    const auto corners = Corners(a);
    for (int other : Neighbors(views, static_cast<int>(i))) {
      const Camera& camera = views[other].camera;
      const float apart =
          Norm(a.camera.camera_to_world.Column(3) - camera.camera_to_world.Column(3));
      for (const auto& [x, y] : corners) {
        const float depth = a.depths[static_cast<size_t>(y) * a.camera.width + x];
        Match match{static_cast<int>(i), other, 0, 0, 0, 0, 0};
        float u, v;
        if (depth > 0 && apart > kMinParallax * depth &&
            ProjectPoint(camera, ShownPoint(a, x, y), &u, &v) &&
            Find(a, x, y, views[other], u, v, &match))
          found[i].push_back(match);
      }
    }
  });
  std::vector<Match> all;
  std::vector<std::vector<double>> of_view(views.size()), logs(views.size());
  for (const auto& matches : found) {
    for (const Match& match : matches) {
      const double error = LineError(match, views, 1);
      all.push_back(match);
      of_view[match.a].push_back(error);
      of_view[match.b].push_back(error);
      logs[match.a].push_back(match.log_brightness);
      logs[match.b].push_back(-match.log_brightness);
    }
  }
  MatchErrors result;
  for (size_t i = 0; i < views.size(); ++i) {
    const bool is_known = of_view[i].size() >= kMinMatches;
    result.of_view.push_back(is_known ? Median(of_view[i]) : std::nan(""));
    result.exposures.push_back(is_known ? std::exp(Median(logs[i])) : std::nan(""));
  }
  if (all.size() < kMinMatches) {
    result.error = result.error_at_scale = std::nan("");
    return result;
  }
  result.error = result.error_at_scale = MedianError(all, views, 1);
  for (double scale = 1 - kMaxScale; scale < 1 + kMaxScale; scale += kScaleStep) {
    const double error = MedianError(all, views, scale);
    if (error < result.error_at_scale) result.focal_scale = scale, result.error_at_scale = error;
  }
  return result;
}

}  // namespace nerf
