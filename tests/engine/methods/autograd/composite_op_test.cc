#include "engine/methods/autograd/composite_op.h"

#include "engine/field/kernels/distortion.h"
#include "tests/testing/gradcheck.h"
#include "tests/testing/reference/composite.h"

namespace nerf::autograd {
namespace {

const std::vector<int> kOffsets = {0, 0, 1, 6, 6, 14};
torch::Tensor Offsets() { return torch::tensor(kOffsets, torch::kInt64); }

TEST(CompositeOpTest, AgreesWithTheReferenceOnRaggedRays) {
  const torch::Tensor sigmas = RandomTensor({14}, 0, 4, 1), deltas = RandomTensor({14}, .1, .5, 2);
  const Composited result = Composite(Offsets(), sigmas, deltas);
  const reference::CompositeResult expected = reference::CompositeForward(
      kOffsets, {sigmas.data_ptr<double>(), 14}, {deltas.data_ptr<double>(), 14});
  for (int i = 0; i < 14; ++i)
    EXPECT_NEAR(result.weights[i].item<double>(), expected.weights[i], 1e-14);
  for (int r = 0; r < 5; ++r)
    EXPECT_NEAR(result.transmittance[r].item<double>(), expected.ray_transmittance[r], 1e-14);
}

TEST(CompositeOpTest, GradientsMatchDifferences) {
  ExpectGradientsMatchDifferences(
      [](const std::vector<torch::Tensor>& in) {
        const Composited result = Composite(Offsets(), in[0], in[1]);
        return torch::cat({result.weights, result.transmittance});
      },
      {RandomTensor({14}, 0, 4, 1), RandomTensor({14}, .1, .5, 2)});
}

TEST(CompositeOpTest, GradientsOfTheWorkedExample) {
  // Rays of 1, 0 and 4 samples: the example that nerfacc's tests work through.
  const torch::Tensor offsets = torch::tensor({0, 1, 1, 5}, torch::kInt64);
  const torch::Tensor sigmas =
      torch::tensor({.4, .8, .1, .8, .1}, torch::dtype(torch::kFloat64).requires_grad(true));
  const Composited result = Composite(offsets, sigmas, torch::ones({5}, torch::kFloat64));
  result.weights.sum().backward();
  const double weights[] = {.3297, .5507, .0428, .2239, .0174};
  const double gradients[] = {.6703, .1653, .1653, .1653, .1653};
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(result.weights[i].item<double>(), weights[i], 1e-4);
    EXPECT_NEAR(sigmas.grad()[i].item<double>(), gradients[i], 1e-4);
  }
}

TEST(CompositeOpTest, FloatsKeepTheirDigitsBehindOpaqueRays) {
  // A ray behind a thousand opaque ones in the packed order must not lose its own thin samples.
  const torch::Tensor offsets = torch::tensor({0, 1000, 1001}, torch::kInt64);
  torch::Tensor sigmas = torch::full({1001}, 1e6f);
  sigmas[1000] = 1e-3f;
  const Composited result = Composite(offsets, sigmas, torch::ones({1001}));
  EXPECT_EQ(result.weights.scalar_type(), torch::kFloat32);
  EXPECT_NEAR(result.weights[1000].item<float>(), 1e-3 - 5e-7, 1e-9);
  EXPECT_NEAR(result.transmittance[1].item<float>(), 1 - 1e-3 + 5e-7, 1e-7);
}

TEST(CompositeOpTest, DistortionsAreThoseOfTheWalkAlongEachRay) {
  const torch::Tensor weights = RandomTensor({14}, 0, .2, 1),
                      places = RandomTensor({14}, 0, 1, 2).cumsum(0);
  const torch::Tensor distortions = Distortion(Offsets(), weights, places, .1);
  for (int r = 0; r < 5; ++r) {
    kernels::Distortion expected;
    for (int i = kOffsets[r]; i < kOffsets[r + 1]; ++i)
      expected.Add(weights[i].item<float>(), places[i].item<float>(), .1f);
    EXPECT_NEAR(distortions[r].item<double>(), expected.value, 1e-5) << r;
  }
  ExpectGradientsMatchDifferences(
      [&](const std::vector<torch::Tensor>& in) {
        return Distortion(Offsets(), in[0], places, .1);
      },
      {weights});
}

TEST(CompositeOpTest, SumsOverRaysOfRandomValues) {
  const torch::Tensor values = RandomTensor({14, 2}, -1, 1, 3);
  const torch::Tensor sums = SumOverRays(Offsets(), values);
  ASSERT_EQ(sums.sizes(), torch::IntArrayRef({5, 2}));
  EXPECT_TRUE(torch::equal(sums[0], torch::zeros({2}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(sums[1], values[0]));
  EXPECT_TRUE(torch::allclose(sums[2], values.slice(0, 1, 6).sum(0), 1e-14));
  EXPECT_TRUE(torch::equal(sums[3], torch::zeros({2}, torch::kFloat64)));
  EXPECT_TRUE(torch::allclose(sums[4], values.slice(0, 6, 14).sum(0), 1e-14));
}

TEST(CompositeOpTest, WrongShapesAreNamed) {
  try {
    Composite(Offsets(), torch::ones({14}), torch::ones({13}));
    FAIL() << "no error";
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("sigmas are [14], deltas [13]"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace nerf::autograd
