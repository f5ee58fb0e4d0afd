#include "tests/testing/reference/splats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nerf::reference {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;  // rows

double DotOf(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix c{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix Transposed(const Matrix& a) {
  Matrix t;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) t[i][j] = a[j][i];
  }
  return t;
}

// Rotates a vector by q v q*.
Vector Rotated(double w, const Vector& u, const Vector& v) {
  const auto cross = [](const Vector& a, const Vector& b) {
    return Vector{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  const Vector once = cross(u, v), twice = cross(u, once);
  return {v[0] + 2 * (w * once[0] + twice[0]), v[1] + 2 * (w * once[1] + twice[1]),
          v[2] + 2 * (w * once[2] + twice[2])};
}

// Associated Legendre functions give the harmonics but for signs: here by their polynomials,
// Sloan 2008, "Stupid Spherical Harmonics (SH) Tricks", appendix A2.
std::array<double, 16> Harmonics(const Vector& d) {
  const double x = d[0], y = d[1], z = d[2], pi = M_PI;
  return {0.5 * std::sqrt(1 / pi),
          -0.5 * std::sqrt(3 / pi) * y,
          0.5 * std::sqrt(3 / pi) * z,
          -0.5 * std::sqrt(3 / pi) * x,
          0.5 * std::sqrt(15 / pi) * x * y,
          -0.5 * std::sqrt(15 / pi) * y * z,
          0.25 * std::sqrt(5 / pi) * (3 * z * z - 1),
          -0.5 * std::sqrt(15 / pi) * x * z,
          0.25 * std::sqrt(15 / pi) * (x * x - y * y),
          -0.25 * std::sqrt(35 / (2 * pi)) * y * (3 * x * x - y * y),
          0.5 * std::sqrt(105 / pi) * x * y * z,
          -0.25 * std::sqrt(21 / (2 * pi)) * y * (5 * z * z - 1),
          0.25 * std::sqrt(7 / pi) * z * (5 * z * z - 3),
          -0.25 * std::sqrt(21 / (2 * pi)) * x * (5 * z * z - 1),
          0.25 * std::sqrt(105 / pi) * z * (x * x - y * y),
          -0.25 * std::sqrt(35 / (2 * pi)) * x * (x * x - 3 * y * y)};
}

struct Flat {
  double depth, x, y, a, b, c, opacity;
  Vector color;
};

// Variances in the picture: those of the splat, brought there by the derivatives of the camera.
Flat FlatOf(const SplatCloud& cloud, const double* row, double width, const Camera& camera) {
  const Mat34& pose = camera.camera_to_world;
  Vector offset, view{};
  for (int i = 0; i < 3; ++i) offset[i] = row[i] - pose.m[i][3];
  const double signs[3] = {1, -1, -1};  // x right, y down, z forward
  Matrix to_view;
  for (int axis = 0; axis < 3; ++axis) {
    for (int i = 0; i < 3; ++i) to_view[axis][i] = signs[axis] * pose.m[i][axis];
    view[axis] = DotOf(to_view[axis], offset);
  }
  const double* const q = row + SplatCloud::kRotation;
  const double length = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  Matrix axes;  // rows: the splat's axes in the frame
  Matrix variances{};
  double dimming = 1;
  for (int axis = 0; axis < 3; ++axis) {
    Vector unit{};
    unit[axis] = 1;
    axes[axis] = Rotated(q[0] / length, {q[1] / length, q[2] / length, q[3] / length}, unit);
    const double scale = std::exp(row[SplatCloud::kLogScale + axis]);
    variances[axis][axis] = scale * scale + width * width;
    dimming *= scale / std::sqrt(variances[axis][axis]);
  }
  const Matrix covariance = Product(Transposed(axes), Product(variances, axes));
  const double z = view[2];
  const Matrix jacobian = {{{camera.fl_x / z, 0, -camera.fl_x * view[0] / (z * z)},
                            {0, camera.fl_y / z, -camera.fl_y * view[1] / (z * z)},
                            {0, 0, 0}}};
  const Matrix map = Product(jacobian, to_view);
  Matrix flat = Product(map, Product(covariance, Transposed(map)));
  flat[0][0] += 0.3;
  flat[1][1] += 0.3;
  const double determinant = flat[0][0] * flat[1][1] - flat[0][1] * flat[1][0];
  Flat result;
  result.depth = z;
  result.x = camera.fl_x * view[0] / z + camera.cx;
  result.y = camera.fl_y * view[1] / z + camera.cy;
  result.a = flat[1][1] / determinant;
  result.b = -flat[0][1] / determinant;
  result.c = flat[0][0] / determinant;
  result.opacity = dimming / (1 + std::exp(-row[SplatCloud::kOpacity]));
  const double distance = std::sqrt(DotOf(offset, offset));
  const std::array<double, 16> harmonics =
      Harmonics({offset[0] / distance, offset[1] / distance, offset[2] / distance});
  for (int channel = 0; channel < 3; ++channel) {
    double value = 0.5;
    for (int i = 0; i < cloud.n_harmonics(); ++i)
      value += harmonics[i] * row[SplatCloud::kColor + 3 * i + channel];
    result.color[channel] = std::max(0.0, value);
  }
  return result;
}

}  // namespace

std::vector<SplatPixel> DrawSplats(const SplatCloud& cloud, const std::vector<double>& numbers,
                                   const Camera& camera) {
  std::vector<Flat> flats;
  for (size_t i = 0; i < cloud.size(); ++i) {
    flats.push_back(FlatOf(cloud, numbers.data() + i * cloud.row_size(), cloud.widths[i], camera));
  }
  std::sort(flats.begin(), flats.end(),
            [](const Flat& a, const Flat& b) { return a.depth < b.depth; });
  std::vector<SplatPixel> picture;
  for (int row = 0; row < camera.height; ++row) {
    for (int column = 0; column < camera.width; ++column) {
      SplatPixel pixel{{0, 0, 0}, 1};
      for (const Flat& flat : flats) {
        const double dx = column + 0.5 - flat.x, dy = row + 0.5 - flat.y;
        const double alpha =
            std::min(0.99, flat.opacity * std::exp(-0.5 * (flat.a * dx * dx + flat.c * dy * dy) -
                                                   flat.b * dx * dy));
        if (flat.depth <= 0.01 || alpha < 1.0 / 255) continue;
        for (int channel = 0; channel < 3; ++channel)
          pixel.color[channel] += pixel.transmittance * alpha * flat.color[channel];
        pixel.transmittance *= 1 - alpha;
      }
      picture.push_back(pixel);
    }
  }
  return picture;
}

}  // namespace nerf::reference
