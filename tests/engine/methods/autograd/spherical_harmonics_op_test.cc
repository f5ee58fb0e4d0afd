#include "engine/methods/autograd/spherical_harmonics_op.h"

#include "engine/field/kernels/spherical_harmonics.h"
#include "tests/testing/gradcheck.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf::autograd {
namespace {

TEST(SphericalHarmonicsOpTest, AgreesWithTheReferenceAndTheKernel) {
  const std::vector<Vec3> directions = RandomDirections(20);
  torch::Tensor input = torch::empty({20, 3}, torch::kFloat64);
  for (int i = 0; i < 20; ++i) {
    const Vec3 d = directions[i];
    const double length = std::hypot(double{d.x}, double{d.y}, double{d.z});
    for (int axis = 0; axis < 3; ++axis) input[i][axis] = d[axis] / length;
  }
  const torch::Tensor harmonics = SphericalHarmonics4(input);
  for (int i = 0; i < 20; ++i) {
    const auto expected = reference::SphericalHarmonics4(
        input[i][0].item<double>(), input[i][1].item<double>(), input[i][2].item<double>());
    float kernel[16];
    kernels::SphericalHarmonics4(directions[i], kernel);
    for (int j = 0; j < 16; ++j) {
      EXPECT_NEAR(harmonics[i][j].item<double>(), expected[j], 1e-13) << j;
      EXPECT_NEAR(harmonics[i][j].item<double>(), kernel[j], 3e-6) << j;
    }
  }
}

TEST(SphericalHarmonicsOpTest, GradientsMatchDifferences) {
  ExpectGradientsMatchDifferences(
      [](const std::vector<torch::Tensor>& in) { return SphericalHarmonics4(in[0]); },
      {RandomTensor({4, 3}, -1, 1, 1)});
}

}  // namespace
}  // namespace nerf::autograd
