#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "engine/render/render_device.h"
#include "engine/train/batch.h"
#include "engine/train/tensor_file.h"

namespace nerf {

// What a step did. Sums over its rays.
struct StepResult {
  // Mean over rays of the loss: color (mean over channels) plus weighted distortion, without the
  // penalty on weights. NaN if a weight is not finite after the step: ReLU turns a NaN into zero,
  // so the loss alone would hide it.
  double loss = 0;
  double squared_error = 0;  // mean over rays and channels
  int64_t n_rays = 0;
  int64_t n_marched = 0;      // samples whose density was evaluated
  int64_t n_trained = 0;      // of these, up to the transmittance limit: those in the backward pass
  double device_seconds = 0;  // on the device's clock, from first to last work; 0 on the CPU
};

// One optimizer step of a method: the interface between the trainer and a method. Used from one
// thread; threads come from the pool given at construction.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // Marches, evaluates, composites, takes the gradient of the mean loss and updates the parameters,
  // and the occupancy grid when it is due. Deterministic: equal state and batch give equal bytes
  // for any number of threads.
  virtual StepResult Run(const Batch& batch) = 0;

  // Whether the step draws the rays of its batches itself: Run then takes batches without
  // rays and colors. Rays are those that a RaySampler would draw.
  virtual bool DrawsRays() const { return false; }

  // Tensors of the whole state (parameters, moments, moving average, occupancy grid), F32 except
  // exact values such as bits. A fresh step of the same config that loads them continues bit for
  // bit.
  virtual void Save(TensorFile* file) const = 0;
  // Errors: InvalidArgument naming a missing tensor or one of another shape; the step then stays
  // unchanged.
  virtual absl::Status Load(const TensorFile& file) = 0;

  // Tensors of a model: the evaluation weights (moving average) in F16, and the occupancy grid's
  // bits.
  virtual void SaveModel(TensorFile* file) const = 0;
  // Takes the parameters of a model or checkpoint, and its occupancy grid if it has the same
  // levels. Optimizer state starts at zero.
  virtual absl::Status Initialize(const TensorFile& file) = 0;

  // Keeps a copy of the whole state, in place of the one before, and goes back to it: for the
  // watchdog. Restore needs a Remember before it.
  virtual void Remember() {
    remembered_.tensors.clear();
    Save(&remembered_);
  }
  virtual absl::Status Restore() { return Load(remembered_); }

  // A copy of the current evaluation weights, rounded as SaveModel rounds them.
  virtual TrainedModel Snapshot() const = 0;

  // For the watchdog. Share of occupied cells; marks every cell occupied.
  virtual double OccupiedFraction() const = 0;
  virtual void ReopenGrid() = 0;

 private:
  TensorFile remembered_;
};

}  // namespace nerf
