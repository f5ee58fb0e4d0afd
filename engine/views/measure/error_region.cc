#include "engine/views/measure/error_region.h"

#include <algorithm>
#include <cmath>

#include "engine/base/median.h"
#include "engine/views/measure/seen_points.h"

namespace nerf {
namespace {

constexpr double kAbove = 8;                           // times the median of the errors
constexpr double kMinError = 4e-3;                     // mean square over the channels
constexpr double kMaxShare = 0.25, kMinShare = 0.002;  // of the picture
constexpr float kMinRadius = 0.05f;  // of the longer side: regions nearer than that meet

// Mean squared difference around each pixel, over 3x3 pixels.
std::vector<double> Errors(const ImageU8& a, const ImageU8& b) {
  std::vector<double> squares(static_cast<size_t>(a.width) * a.height), errors(squares.size());
  for (size_t i = 0; i < squares.size(); ++i) {
    for (int c = 0; c < 3; ++c) {
      const double difference = (a.pixels[3 * i + c] - b.pixels[3 * i + c]) / 255.0;
      squares[i] += difference * difference / 3;
    }
  }
  for (int y = 0; y < a.height; ++y) {
    for (int x = 0; x < a.width; ++x) {
      double sum = 0;
      int n = 0;
      for (int v = std::max(0, y - 1); v <= std::min(a.height - 1, y + 1); ++v) {
        for (int u = std::max(0, x - 1); u <= std::min(a.width - 1, x + 1); ++u) {
          sum += squares[static_cast<size_t>(v) * a.width + u];
          ++n;
        }
      }
      errors[static_cast<size_t>(y) * a.width + x] = sum / n;
    }
  }
  return errors;
}

// The point between two rays where they come closest; false where they are parallel or it lies
// behind one.
bool Meet(const Ray& a, const Ray& b, Vec3* point) {
  const Vec3 between = b.origin - a.origin;
  const float cosine = Dot(a.direction, b.direction), sine2 = 1 - cosine * cosine;
  if (sine2 < 1e-3f) return false;
  const float along_a = Dot(between, a.direction), along_b = Dot(between, b.direction);
  const float t = (along_a - cosine * along_b) / sine2, s = (cosine * along_a - along_b) / sine2;
  *point = (a.origin + a.direction * t + b.origin + b.direction * s) * 0.5f;
  return t > 0 && s > 0;
}

}  // namespace

ErrorRegion FindErrorRegion(const ImageU8& photograph, const ImageU8& rendered) {
  const std::vector<double> errors = Errors(photograph, rendered);
  const double threshold = std::max(kMinError, kAbove * Median(errors));
  const int width = photograph.width, n = static_cast<int>(errors.size());
  double total = 0;
  for (double error : errors) total += error;
  std::vector<bool> is_done(errors.size());
  ErrorRegion best;
  for (int start = 0; start < n; ++start) {
    if (is_done[start] || errors[start] < threshold) continue;
    std::vector<int> region = {start};
    is_done[start] = true;
    double sum = 0, x = 0, y = 0;
    for (size_t i = 0; i < region.size(); ++i) {
      const int at = region[i], column = at % width;
      sum += errors[at];
      x += column + 0.5;
      y += at / width + 0.5;
      for (int next : {column > 0 ? at - 1 : -1, column + 1 < width ? at + 1 : -1, at - width,
                       at + width < n ? at + width : -1}) {
        if (next < 0 || is_done[next] || errors[next] < threshold) continue;
        is_done[next] = true;
        region.push_back(next);
      }
    }
    const double size = static_cast<double>(region.size()), share = size / n;
    if (share < kMinShare || share > kMaxShare) continue;
    const double rest = std::max(1e-9, total - sum) / (n - size);
    const double gain = 10 * std::log10(total / n / rest);
    if (gain <= best.gain_db) continue;
    best = {gain, static_cast<float>(x / size / width),
            static_cast<float>(y / size / photograph.height),
            static_cast<float>(std::sqrt(size / 3.1416) / std::max(width, photograph.height))};
  }
  return best;
}

ErrorPlace MeetingPlace(std::span<const Camera> cameras, std::span<const ErrorRegion> regions,
                        double min_gain_db) {
  std::vector<int> marked;
  std::vector<Ray> rays;
  for (int i = 0; i < static_cast<int>(cameras.size()); ++i) {
    if (regions[i].gain_db < min_gain_db) continue;
    marked.push_back(i);
    rays.push_back(CameraRay(cameras[i], regions[i].x * static_cast<float>(cameras[i].width),
                             regions[i].y * static_cast<float>(cameras[i].height)));
  }
  ErrorPlace best;
  for (size_t a = 0; a < rays.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      ErrorPlace place;
      if (!Meet(rays[a], rays[b], &place.point)) continue;
      for (int i : marked) {
        const Camera& camera = cameras[i];
        float x, y;
        if (!ProjectPoint(camera, place.point, &x, &y)) continue;
        const float off = std::hypot(x - regions[i].x * static_cast<float>(camera.width),
                                     y - regions[i].y * static_cast<float>(camera.height));
        const float side = static_cast<float>(std::max(camera.width, camera.height));
        if (off <= std::max(kMinRadius, regions[i].radius) * side) place.views.push_back(i);
      }
      if (place.views.size() > std::max<size_t>(1, best.views.size())) best = std::move(place);
    }
  }
  for (const Camera& camera : cameras) {
    float x, y;
    best.n_showing += !best.views.empty() && ProjectPoint(camera, best.point, &x, &y) ? 1 : 0;
  }
  return best;
}

}  // namespace nerf
