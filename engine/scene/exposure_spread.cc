#include "engine/scene/exposure_spread.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/median.h"

namespace nerf {
namespace {

constexpr int kRows = 16, kColumns = 64;  // of samples of a picture, which may lie in a file
constexpr size_t kNeighbors = 2;
constexpr size_t kAny = 16;          // other pictures that each is compared with
constexpr float kMinCosine = 0.94f;  // between the axes of neighbors
constexpr size_t kMinViews = 4;
constexpr double kBlack = 0.01;  // added to means, so that dark pictures differ little

using LogColor = std::array<double, 3>;

LogColor LogOfMean(const ImageU8& size, std::span<const uint8_t> pixels) {
  const int n_channels = size.n_channels;
  const int rows = std::min(kRows, size.height);
  const int columns = std::min(kColumns, size.width);
  double sums[3] = {}, weights = 0;
  for (int row = 0; row < rows; ++row) {
    const auto y = static_cast<size_t>((2 * row + 1) * int64_t{size.height} / (2 * rows));
    for (int column = 0; column < columns; ++column) {
      const auto x = static_cast<size_t>((2 * column + 1) * int64_t{size.width} / (2 * columns));
      const uint8_t* const pixel = pixels.data() + (y * size.width + x) * n_channels;
      const double weight = n_channels == 4 ? pixel[3] / 255.0 : 1;
      for (int c = 0; c < 3; ++c) sums[c] += weight * pixel[c] / 255;
      weights += weight;
    }
  }
  LogColor color;
  for (int c = 0; c < 3; ++c) color[c] = std::log(sums[c] / std::max(weights, 1e-9) + kBlack);
  return color;
}

class ColorDifferences {
 public:
  void Add(const LogColor& a, const LogColor& b) {
    LogColor ratio;
    for (int c = 0; c < 3; ++c) ratio[c] = a[c] - b[c];
    const double mean = (ratio[0] + ratio[1] + ratio[2]) / 3;
    brightness_.push_back(std::abs(mean));
    for (const double channel : ratio) tints_.push_back(std::abs(channel - mean));
  }
  ColorSpread Spread() const {
    if (brightness_.empty()) return {};
    return {Median(brightness_), Median(tints_)};
  }

 private:
  std::vector<double> brightness_, tints_;
};

std::vector<size_t> NeighborsOf(std::span<const View> views, size_t of) {
  const Mat34& pose = views[of].camera.camera_to_world;
  std::vector<std::pair<float, size_t>> order;
  for (size_t i = 0; i < views.size(); ++i) {
    const Mat34& other = views[i].camera.camera_to_world;
    if (i != of && Dot(pose.Column(2), other.Column(2)) > kMinCosine)
      order.push_back({Norm(pose.Column(3) - other.Column(3)), i});
  }
  const size_t n = std::min(kNeighbors, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(n), order.end());
  std::vector<size_t> neighbors;
  for (size_t i = 0; i < n; ++i) neighbors.push_back(order[i].second);
  return neighbors;
}

}  // namespace

ExposureSpread SpreadOfExposures(
    std::span<const View> views,
    const std::function<std::span<const uint8_t>(size_t view)>& pixels) {
  if (views.size() < kMinViews) return {};
  std::vector<LogColor> colors;
  for (size_t i = 0; i < views.size(); ++i) colors.push_back(LogOfMean(views[i].image, pixels(i)));
  ColorDifferences neighbors, any;
  size_t n_with_neighbors = 0;
  for (size_t i = 0; i < views.size(); ++i) {
    const std::vector<size_t> nearest = NeighborsOf(views, i);
    n_with_neighbors += nearest.empty() ? 0 : 1;
    for (const size_t beside : nearest) neighbors.Add(colors[i], colors[beside]);
    const size_t n = std::min(kAny, views.size() - 1);
    for (size_t k = 1; k <= n; ++k)
      any.Add(colors[i], colors[(i + k * (views.size() - 1) / n) % views.size()]);
  }
  if (2 * n_with_neighbors < views.size()) return {};
  return {neighbors.Spread(), any.Spread()};
}

}  // namespace nerf
