#include "engine/views/measure/specks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/check.h"

namespace nerf {
namespace {

constexpr int kSpeckDistance = 3;  // pixels: nearer ones may see the object's edge

bool SeesNothing(const ImageU8& photograph, int x, int y) {
  constexpr int kReach = kSpeckDistance - 1;
  for (int v = std::max(0, y - kReach); v <= std::min(y + kReach, photograph.height - 1); ++v) {
    for (int u = std::max(0, x - kReach); u <= std::min(x + kReach, photograph.width - 1); ++u) {
      if (photograph.Pixel(u, v)[3] != 0) return false;
    }
  }
  return true;
}

}  // namespace

void Specks::Add(const ImageU8& photograph, const ImageU8& rendered) {
  if (photograph.n_channels != 4) return;
  NERF_CHECK(rendered.n_channels == 4 && rendered.width == photograph.width &&
             rendered.height == photograph.height);
  for (int y = 0; y < photograph.height; ++y) {
    for (int x = 0; x < photograph.width; ++x) {
      if (SeesNothing(photograph, x, y)) ++n_of_opacity_[rendered.Pixel(x, y)[3]];
    }
  }
}

int64_t Specks::n_pixels() const {
  return std::accumulate(n_of_opacity_.begin(), n_of_opacity_.end(), int64_t{0});
}

double Specks::Mean() const {
  double sum = 0;
  for (size_t opacity = 0; opacity < n_of_opacity_.size(); ++opacity)
    sum += static_cast<double>(opacity) * static_cast<double>(n_of_opacity_[opacity]);
  return sum / (255 * static_cast<double>(n_pixels()));
}

double Specks::Percentile(double share) const {
  const double wanted = share * static_cast<double>(n_pixels());
  double n = 0;
  for (size_t opacity = 0; opacity < n_of_opacity_.size(); ++opacity) {
    n += static_cast<double>(n_of_opacity_[opacity]);
    if (n > 0 && n >= wanted) return static_cast<double>(opacity) / 255;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace nerf
