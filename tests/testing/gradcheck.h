#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"

namespace nerf {

// A tensor of reproducible doubles, uniform in [low, high).
inline torch::Tensor RandomTensor(torch::IntArrayRef shape, double low, double high,
                                  uint32_t stream) {
  torch::Tensor tensor = torch::empty(shape, torch::kFloat64);
  const std::vector<float> values =
      RandomFloats(tensor.numel(), static_cast<float>(low), static_cast<float>(high), stream);
  std::copy(values.begin(), values.end(), tensor.data_ptr<double>());
  return tensor;
}

// Checks the gradient of sum(f(inputs) * r), r fixed and random, by each element of each input
// against central differences. inputs: doubles; f must be smooth within 1e-5 of them.
inline void ExpectGradientsMatchDifferences(
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& f,
    std::vector<torch::Tensor> inputs) {
  constexpr double kStep = 1e-6;
  // The difference has an error of kStep^2 times a third derivative, and 1e-16 / kStep of rounding.
  constexpr double kTolerance = 1e-7;
  for (torch::Tensor& input : inputs) input.requires_grad_(true);
  const torch::Tensor outputs = f(inputs);
  const torch::Tensor projection = RandomTensor(outputs.sizes(), -1, 1, 999);
  (outputs * projection).sum().backward();
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(inputs[i].grad().defined()) << "input " << i;
    const torch::Tensor gradient = inputs[i].grad().contiguous();
    double* const values = inputs[i].data_ptr<double>();
    for (int64_t j = 0; j < inputs[i].numel(); ++j) {
      const double value = values[j];
      values[j] = value + kStep;
      const double above = (f(inputs) * projection).sum().item<double>();
      values[j] = value - kStep;
      const double below = (f(inputs) * projection).sum().item<double>();
      values[j] = value;
      const double slope = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.data_ptr<double>()[j], slope,
                  kTolerance * std::max(1.0, std::abs(slope)))
          << "input " << i << ", element " << j;
    }
  }
}

}  // namespace nerf
