#include "engine/field/kernels/hash_position_gradient.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/hash_encoding.h"

namespace nerf::kernels {
namespace {

// Against central differences of the encoding itself, within cells.
TEST(HashPositionGradientTest, AgreesWithCentralDifferencesOfTheEncoding) {
  for (const int n_features : {2, 4}) {
    const HashGridShape shape = MakeHashGridShape(4, n_features, 12, 4, 40);
    const int width = shape.width();
    const std::vector<float> table = RandomFloats(shape.level_size() * 4, -1, 1, 5);
    const std::vector<Vec3> points = RandomPoints(40, 0.02f, 0.98f, 6);
    const std::vector<float> gradients = RandomFloats(points.size() * width, -1, 1, 7);
    std::vector<Vec3> found(points.size());
    cpu::HashPositionGradient(HashPositionGradientParams<float>{.shape = &shape,
                                                                .table = table.data(),
                                                                .n = 40,
                                                                .positions = points.data(),
                                                                .grad_features = gradients.data(),
                                                                .stride = width,
                                                                .grad_positions = found.data()});
    const auto value = [&](size_t i, Vec3 p) {
      std::vector<float> features(width);
      cpu::HashEncodeForward(HashEncodeForwardParams<float>{.shape = &shape,
                                                            .table = table.data(),
                                                            .n = 1,
                                                            .positions = &p,
                                                            .features = features.data(),
                                                            .stride = width});
      double sum = 0;
      for (int f = 0; f < width; ++f) sum += double{gradients[i * width + f]} * features[f];
      return sum;
    };
    int n_checked = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      for (int axis = 0; axis < 3; ++axis) {
        constexpr float kStep = 1e-4f;
        Vec3 low = points[i], high = points[i];
        low[axis] -= kStep;
        high[axis] += kStep;
        bool one_cell = true;
        for (int level = 0; level < 4; ++level) {
          const auto n = static_cast<float>(shape.resolution[level]);
          one_cell &= static_cast<int>(low[axis] * n) == static_cast<int>(high[axis] * n);
        }
        if (!one_cell) continue;
        ++n_checked;
        const double slope = (value(i, high) - value(i, low)) / (double{high[axis]} - low[axis]);
        EXPECT_NEAR(found[i][axis], slope, 0.02 * std::abs(slope) + 0.3) << i << " " << axis;
      }
    }
    EXPECT_GT(n_checked, 100);
  }
}

}  // namespace
}  // namespace nerf::kernels
