#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "engine/field/marched_model.h"
#include "engine/train/training_step.h"

namespace nerf {

// A field with the same density and color everywhere. Used where the field's values do not matter.
class ConstantField final : public RadianceField {
 public:
  ConstantField(float sigma, Vec3 color) : sigma_(sigma), color_(color) {}

  std::unique_ptr<Workspace> NewWorkspace(int) const override {
    return std::make_unique<Workspace>();
  }
  void Density(int n, const Vec3*, float* sigmas, Workspace*) const override {
    for (int i = 0; i < n; ++i) sigmas[i] = sigma_;
  }
  void Color(int n, const int*, const Vec3*, Vec3* colors, Workspace*) const override {
    for (int i = 0; i < n; ++i) colors[i] = color_;
  }

 private:
  const float sigma_;
  const Vec3 color_;
};

// A step whose weights are a digest of all its batches: any change of a batch (a pixel, a
// color, the fraction, the number of pixels, the order) changes the tensors. Tests set its loss and
// grid. Used by the tests of the trainer and the code around it.
class FakeTrainingStep final : public TrainingStep {
 public:
  static constexpr int kWeights = 8;

  // What Run returns besides counts, by the batch's step.
  std::function<double(const PixelBatch&)> loss = [](const PixelBatch&) { return 0.005; };
  std::function<void()> on_run = [] {};  // moves a fake clock
  double occupied = 0.1;
  bool draws_pixels = false;
  StepShare share;
  int samples_per_pixel = 8;
  int n_runs = 0, n_loads = 0, n_reopened = 0, n_snapshots = 0;
  mutable int n_saves = 0;
  std::vector<double> fractions;    // of each run
  std::vector<float> rate_factors;  // of each run
  std::vector<uint32_t> steps;      // of each run's batch
  std::vector<int> picture_levels;  // of each run's batch

  StepResult Run(const PixelBatch& batch) override {
    ++n_runs;
    next_ = 0;  // the weights are the only state between steps
    on_run();
    fractions.push_back(batch.fraction);
    rate_factors.push_back(batch.rate_factor);
    steps.push_back(batch.step);
    picture_levels.push_back(batch.picture_level);
    Mix(batch.step);
    Mix(std::bit_cast<uint32_t>(static_cast<float>(batch.fraction)));
    Mix(std::bit_cast<uint32_t>(batch.rate_factor));
    for (size_t i = 0; i < batch.pixels.size(); ++i) {
      Mix(static_cast<uint32_t>(batch.pixels[i].view));
      Mix(static_cast<uint32_t>(batch.pixels[i].x));
      Mix(std::bit_cast<uint32_t>(batch.targets[i].y));
    }
    StepResult result;
    result.loss = loss(batch);
    result.squared_error = result.loss;
    result.n_rays = batch.n_pixels;
    // Depends on the weights, so that the next batch's size does, too.
    result.n_trained = int64_t{batch.n_pixels} * (samples_per_pixel + weights_[0] % 3);
    result.n_marched = occupied > 0 ? 2 * result.n_trained : 0;
    return result;
  }

  int NextPixels(double /*fraction*/) override {
    return 256 + 64 * static_cast<int>(weights_[0] % 3);
  }
  StepShare Share() const override { return share; }
  bool DrawsPixels() const override { return draws_pixels; }
  double TimeFraction(double fraction) const override { return fraction * fraction; }

  void Save(TensorFile* file) const override {
    ++n_saves;
    Tensor tensor{DType::kI32, {kWeights}, std::vector<uint8_t>(kWeights * 4)};
    std::memcpy(tensor.bytes.data(), weights_.data(), tensor.bytes.size());
    file->tensors["weights"] = std::move(tensor);
  }
  absl::Status Load(const TensorFile& file) override {
    ++n_loads;
    const auto found = file.tensors.find("weights");
    if (found == file.tensors.end() || found->second.bytes.size() != kWeights * 4) {
      return absl::InvalidArgumentError("tensor weights is missing");
    }
    std::memcpy(weights_.data(), found->second.bytes.data(), kWeights * 4);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override { Save(file); }
  absl::Status Initialize(const TensorFile& file) override { return Load(file); }

  std::unique_ptr<TrainedModel> Snapshot() const override {
    ++const_cast<FakeTrainingStep*>(this)->n_snapshots;
    return std::make_unique<MarchedModel>("fake", std::make_unique<ConstantField>(0.0f, Vec3{}),
                                          FullOccupancyGrid(Aabb{}, 1, 4),
                                          kernels::MarchSteps{1, 0}, 0);
  }
  double OccupiedFraction() const override { return occupied; }
  void ReopenGrid() override {
    ++n_reopened;
    occupied = 1;
  }

 private:
  void Mix(uint32_t word) {
    uint32_t& weight = weights_[next_++ % kWeights];
    weight = (weight ^ word) * 0x9E3779B1u + (weight >> 15);
    weights_[0] += weight >> 7;
  }

  std::array<uint32_t, kWeights> weights_ = {1, 2, 3, 4, 5, 6, 7, 8};
  uint32_t next_ = 0;
};

}  // namespace nerf
