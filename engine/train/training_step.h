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
  // Mean over rays of the loss: the color's, its channels averaged, and the distortion's share;
  // without the penalty on weights. NaN where a weight is not finite after the step: hidden layers
  // turn a NaN into zero, and the loss would not show it.
  double loss = 0;
  double squared_error = 0;  // mean over rays and channels
  int64_t n_rays = 0;
  int64_t n_marched = 0;      // samples whose density was evaluated
  int64_t n_trained = 0;      // of these, in front of the transmittance limit: all that went back
  double device_seconds = 0;  // by a device's clock, from its first work to its last; 0 on the CPU
};

// One optimizer step of a method: the seam between the trainer and everything that knows how a
// field is trained. Used from one thread; threads come from the pool given at construction.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // Marches, evaluates, composites, takes the gradient of the mean loss and updates the parameters,
  // and the occupancy grid where it is due. Deterministic: equal state and batch give equal bytes
  // for any number of threads.
  virtual StepResult Run(const Batch& batch) = 0;

  // Whether the step draws the rays of its batches itself: Run then takes batches without
  // rays and colors. Rays are those that a RaySampler would draw.
  virtual bool DrawsRays() const { return false; }

  // Tensors of the whole state (parameters, moments, moving average, occupancy grid), F32 but for
  // what is exact otherwise. Loading them in a fresh step of the same config continues bit for bit.
  virtual void Save(TensorFile* file) const = 0;
  // Errors: InvalidArgument naming the tensor that is missing or of another shape; nothing is
  // changed then.
  virtual absl::Status Load(const TensorFile& file) = 0;

  // Tensors of a model: the evaluation weights (moving average) in F16, and the occupancy grid's
  // bits.
  virtual void SaveModel(TensorFile* file) const = 0;
  // Parameters (and occupancy grid where it has the same levels) of a model or checkpoint;
  // optimizer state starts anew.
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
