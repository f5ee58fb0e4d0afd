#include "engine/methods/autograd/density_activation_op.h"

#include <cmath>

#include "tests/testing/gradcheck.h"

namespace nerf::autograd {
namespace {

TEST(DensityActivationOpTest, GradientsMatchDifferencesBelowTheClamp) {
  ExpectGradientsMatchDifferences(
      [](const std::vector<torch::Tensor>& in) { return DensityActivation(in[0], 1); },
      {RandomTensor({3, 7}, -8, 4, 1)});
}

TEST(DensityActivationOpTest, DensityIsClampedButItsGradientIsNotCutOff) {
  const torch::Tensor outputs =
      torch::tensor({1.0, 16.0, 30.0}, torch::dtype(torch::kFloat64).requires_grad(true));
  const torch::Tensor sigmas = DensityActivation(outputs, 1);
  EXPECT_DOUBLE_EQ(sigmas[0].item<double>(), 1);
  EXPECT_DOUBLE_EQ(sigmas[1].item<double>(), std::exp(15.0));
  EXPECT_DOUBLE_EQ(sigmas[2].item<double>(), std::exp(15.0));
  sigmas.sum().backward();
  EXPECT_TRUE(torch::equal(outputs.grad(), sigmas.detach()));
}

}  // namespace
}  // namespace nerf::autograd
