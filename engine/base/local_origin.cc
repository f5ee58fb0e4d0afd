#include "engine/base/local_origin.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace nerf {
namespace {

constexpr double kFloatStep = 1.0 / (1 << 23);  // of numbers of 24 bits, relative
constexpr double kMaxRounding = 1e-5;           // of the extent
constexpr double kFarFromZero = 1e4;            // of positions without an extent
constexpr double kFinestUnit = 1e-9;            // of the largest coordinate
constexpr int kLeastPower = -300;               // of ten, whose inverse is a double

// The power of ten at or below a number above 0.
int PowerBelow(double number) { return static_cast<int>(std::floor(std::log10(number))); }

}  // namespace

Vec3d LocalOrigin(std::span<const Vec3d> positions) {
  Vec3d origin = {0, 0, 0};
  if (positions.empty()) return origin;
  double largest = 0, extent = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    double low = positions[0][axis], high = low;
    for (const Vec3d& position : positions) {
      low = std::min(low, position[axis]);
      high = std::max(high, position[axis]);
    }
    largest = std::max({largest, std::abs(low), std::abs(high)});
    extent = std::max(extent, high - low);
    origin[axis] = 0.5 * (low + high);
  }
  const bool is_far =
      extent > 0 ? largest * kFloatStep > kMaxRounding * extent : largest > kFarFromZero;
  if (!is_far) return {0, 0, 0};
  const int power =
      extent > 0 ? std::max(kLeastPower, PowerBelow(std::max(extent, kFinestUnit * largest))) : 0;
  // Powers below 1 are no doubles, so the origin is divided by their inverse.
  const double unit = std::pow(10.0, std::abs(power));
  for (double& x : origin)
    x = (power < 0 ? std::round(x * unit) / unit : std::round(x / unit) * unit) + 0.0;  // no -0
  return origin;
}

std::string OriginText(const Vec3d& origin, const char* separator) {
  std::string text;
  for (const double x : origin) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.15g", x);
    text += text.empty() ? "" : separator;
    text += number;
  }
  return text;
}

Vec3d Sum(const Vec3d& a, const Vec3d& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }

Vec3d Difference(const Vec3d& a, const Vec3d& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

}  // namespace nerf
