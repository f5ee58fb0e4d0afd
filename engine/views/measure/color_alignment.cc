#include "engine/views/measure/color_alignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "engine/views/measure/image_metrics.h"
#include "engine/views/measure/least_squares.h"

namespace nerf {
namespace {

constexpr int kTerms = 4;  // red, green, blue, 1
// Added to the normal equations' diagonal for each pixel: colors that do not vary, such as those of
// an empty picture, have many solutions.
constexpr double kRidge = 1e-9;

struct NormalEquations {
  double matrix[kTerms][kTerms] = {};
  double right[3][kTerms] = {};  // of each channel of the photograph
  double squares[3] = {};        // of the photograph
  double n = 0;

  void Add(const uint8_t* rendered, const uint8_t* photograph) {
    const double terms[kTerms] = {rendered[0] / 255.0, rendered[1] / 255.0, rendered[2] / 255.0, 1};
    for (int i = 0; i < kTerms; ++i) {
      for (int j = 0; j <= i; ++j) matrix[i][j] += terms[i] * terms[j];
      for (int c = 0; c < 3; ++c) right[c][i] += terms[i] * photograph[c] / 255.0;
    }
    for (int c = 0; c < 3; ++c) squares[c] += photograph[c] / 255.0 * (photograph[c] / 255.0);
    ++n;
  }

  // Sum over the pixels of (photograph - solution)^2 in a channel.
  double SquaredError(int channel) const {
    double a[kTerms][kTerms], x[kTerms];
    std::memcpy(a, matrix, sizeof(a));
    for (int i = 0; i < kTerms; ++i) a[i][i] += kRidge * n;
    if (!SolvePositiveDefinite(a, right[channel], x)) return squares[channel];
    double error = squares[channel];
    for (int i = 0; i < kTerms; ++i) {
      error -= 2 * x[i] * right[channel][i];
      for (int j = 0; j < kTerms; ++j)
        error += x[i] * x[j] * matrix[std::max(i, j)][std::min(i, j)];
    }
    return std::max(0.0, error);
  }
};

}  // namespace

double ColorAlignedPsnr(const ImageU8& photograph, Vec3 background, bool alpha_is_mask,
                        const ImageU8& rendered) {
  const ImageU8 colors =
      alpha_is_mask ? WithoutAlpha(photograph) : CompositedOn(photograph, background);
  NormalEquations equations;
  for (size_t i = 0; 3 * i < colors.pixels.size(); ++i) {
    if (PixelCounts(photograph, alpha_is_mask, i))
      equations.Add(rendered.pixels.data() + 3 * i, colors.pixels.data() + 3 * i);
  }
  if (equations.n == 0) return std::nan("");
  double squared = 0;
  for (int c = 0; c < 3; ++c) squared += equations.SquaredError(c);
  return PsnrFromSquaredError(squared / (3 * equations.n));
}

}  // namespace nerf
