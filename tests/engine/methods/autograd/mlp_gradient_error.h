#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/methods/autograd/mlp_autograd_step.h"
#include "engine/methods/autograd/ray_march.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/mlp_field.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {

// A step's state with points that are moved, where the field has a warp.
inline TensorFile WithLivelyWarp(TensorFile state) {
  const auto shift = state.tensors.find("field.warp.shift.weights");
  if (shift == state.tensors.end()) return state;
  const std::vector<float> values = RandomFloats(shift->second.n_elements(), -0.02f, 0.02f, 79);
  shift->second = TensorFromFloats(values.data(), shift->second.shape, DType::kF32);
  return state;
}

// The loss of a batch in double precision, on all samples of an untrained grid.
class MlpReferenceLoss {
 public:
  MlpReferenceLoss(const TrainConfig& config, const SceneGeometry& geometry, RayBatch batch)
      : config_(config),
        placement_(MlpPlacementOf(geometry.box)),
        networks_(MlpNetworks(config)),
        batch_(std::move(batch)) {
    OccupancyUpdater open(config, geometry);
    samples_ = MarchBatch(
        batch_, config, {geometry.step, geometry.cone},
        [](const std::vector<Vec3>& positions, const std::vector<float>& /*times*/) {
          return torch::zeros({static_cast<int64_t>(positions.size())});
        },
        &open);
  }

  const std::vector<MlpLayout>& networks() const { return networks_; }
  int64_t n_samples() const { return samples_.ray_offsets.back(); }
  // parameters: of each network.
  double At(const std::vector<std::vector<double>>& parameters) const {
    using reference::MlpField;
    const auto warp = networks_.size() > 1 ? MlpField::Network{&networks_[1], &parameters[1]}
                                           : MlpField::Network{};
    const MlpField field({&networks_[0], &parameters[0]}, placement_, warp);
    double loss = 0;
    for (int r = 0; r < batch_.n_rays; ++r) {
      const double time = batch_.times.empty() ? 0 : batch_.times[r];
      double transmittance = 1, color[3] = {};
      for (int64_t i = samples_.ray_offsets[r]; i < samples_.ray_offsets[r + 1]; ++i) {
        const auto sample = field.At(samples_.positions[i], samples_.directions[i], time);
        const double left = transmittance * std::exp(-sample.sigma * samples_.deltas[i]);
        for (int c = 0; c < 3; ++c) color[c] += (transmittance - left) * sample.color[c];
        transmittance = left;
      }
      for (int c = 0; c < 3; ++c) {
        const double residual =
            color[c] + transmittance * batch_.backgrounds[r][c] - batch_.targets[r][c];
        const double size = std::abs(residual), delta = config_.huber_delta;
        loss += size <= delta ? 0.5 * size * size : delta * (size - 0.5 * delta);
      }
    }
    return loss / (3 * batch_.n_rays);
  }

 private:
  const TrainConfig config_;
  const MlpPlacement placement_;
  const std::vector<MlpLayout> networks_;
  const RayBatch batch_;
  PackedSamples samples_;
};

// Relative distance of a step's gradients to those of the reference, over the eight largest of each
// tensor. Requires: min_transmittance is 0, so that all samples count; the batch's learning rate is
// 0, so that its parameters stay.
inline double MlpGradientError(const TrainConfig& config, const RayBatch& batch) {
  const SceneGeometry geometry = TinyGeometry();
  ThreadPool pool(1);
  const auto step = NewMlpAutogradStep(config, geometry, &pool);
  const TensorFile before = WithLivelyWarp(Saved(*step));
  EXPECT_THAT(step->Load(before), IsOk());
  const MlpReferenceLoss reference(config, geometry, batch);
  const StepResult result = step->RunRays(batch);
  const TensorFile after = Saved(*step);
  EXPECT_EQ(result.n_trained, reference.n_samples());
  struct Part {
    std::string name;
    int network;
    size_t offset;
  };
  std::vector<Part> parts;
  std::vector<std::vector<double>> parameters;
  for (const MlpLayout& network : reference.networks()) {
    const int i = static_cast<int>(parameters.size());
    parameters.emplace_back(network.size);
    for (const MlpLayer& layer : network.layers) {
      parts.push_back({layer.name + ".weights", i, layer.weights});
      parts.push_back({layer.name + ".biases", i, layer.biases});
    }
  }
  for (const Part& part : parts) {
    const std::vector<float> values = ToFloats(before.tensors.at(part.name));
    std::copy(values.begin(), values.end(), parameters[part.network].begin() + part.offset);
  }
  EXPECT_NEAR(result.loss, reference.At(parameters), 0.01 * result.loss);
  double difference = 0, norm = 0;
  for (const Part& part : parts) {
    const std::vector<float> first = ToFloats(after.tensors.at("adam.first." + part.name));
    std::vector<size_t> order(first.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::partial_sort(order.begin(), order.begin() + 8, order.end(),
                      [&](size_t a, size_t b) { return std::abs(first[a]) > std::abs(first[b]); });
    EXPECT_NE(first[order[0]], 0) << part.name;
    for (int k = 0; k < 8; ++k) {
      double* const parameter = &parameters[part.network][part.offset + order[k]];
      const double expected =
          CentralDifference(parameter, 1e-6, [&] { return reference.At(parameters); });
      const double gradient = first[order[k]] / (1 - double{config.beta1});
      difference += std::pow(gradient - expected, 2);
      norm += std::pow(expected, 2);
    }
  }
  EXPECT_GT(norm, 0);
  return std::sqrt(difference / norm);
}

}  // namespace nerf
