#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/vec3.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/field/parameters/lens_scales.h"
#include "engine/field/trained_model.h"
#include "engine/train/batch/pixel_batch.h"
#include "engine/train/ranks/rank_costs.h"

namespace nerf {

class PictureErrors;

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

// The steps that a training makes itself, of those that its budget counts: `first` and each
// `stride`-th from it. Other trainings make the others.
struct StepShare {
  uint32_t first = 0, stride = 1;

  // The first of these steps from `step` on.
  uint32_t NextFrom(uint32_t step) const {
    if (step <= first) return first;
    return first + (step - first + stride - 1) / stride * stride;
  }
};

// One optimizer step of a method: the interface between the trainer and a method. It makes its rays
// from the batch's pixels and follows its own schedules. Used from one thread; threads come from
// the pool given at construction. Methods that train on rays derive from RayStep.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // Evaluates the model at the pixels, takes the gradient of the mean loss and updates the
  // parameters and whatever else the method learns. Deterministic: equal state and batch give equal
  // bytes for any number of threads.
  virtual StepResult Run(const PixelBatch& batch) = 0;

  // Number of pixels of the next batch, if `fraction` of the budget is spent by then. Called before
  // each Run.
  virtual int NextPixels(double fraction) = 0;

  // Which of a batch's pixels this rank of a group trains, if `fraction` of the budget is spent
  // before the batch: ranges that follow one another and cover all pixels. Only these are drawn.
  virtual IndexRange OwnPixels(int n_pixels, double fraction) const { return {0, n_pixels}; }

  // In a group of ranks, brings here what others own of the state. All ranks call it after the same
  // step. Save, SaveModel and Snapshot are right from then until the next Run. Throws GroupError.
  virtual void CollectState() {}

  // For a forecast of several ranks: begins to count; what the steps have cost since then.
  virtual void MeasureCosts() {}
  virtual RankCosts CostsOf(int n_ranks) const { return {}; }
  // Bytes that rank 0 of n_ranks would receive in a later step, by what the steps since then
  // were like. 0: not known.
  virtual double BytesOfStep(const StepOutlook& step, int n_ranks) const { return 0; }

  // Of methods with Method::HasProfile: records the operations of the next n_steps calls of Run.
  // What was recorded, as an object of Chrome's trace event format.
  virtual void StartProfile(int n_steps) {}
  virtual std::string Profile() const { return {}; }

  // Of the steps that are trained elsewhere, none is drawn or run here. Batches keep their numbers.
  virtual StepShare Share() const { return {}; }

  // Whether the step draws the pixels of its batches itself: Run then takes batches without pixels
  // and targets. The pixels are those that a PixelSampler would draw.
  virtual bool DrawsPixels() const { return false; }

  // The errors by which the pixels of its next batch are drawn; null: all are drawn alike. The same
  // object as long as the step lives.
  virtual const PictureErrors* Errors() const { return nullptr; }

  // Share of a run's time that is over when `fraction` of the budget is spent: for the ETA.
  virtual double TimeFraction(double fraction) const { return fraction; }

  // Tensors of the whole state (parameters, moments, moving average, occupancy grid), F32 except
  // exact values such as bits, and metadata under keys of the method. A fresh step of the same
  // config that loads them continues bit for bit.
  virtual void Save(TensorFile* file) const = 0;
  // Errors: InvalidArgument naming a missing tensor or one of another shape; the step then stays
  // unchanged.
  virtual absl::Status Load(const TensorFile& file) = 0;

  // Tensors of a model: the evaluation weights (moving average) in F16, and what else its renderer
  // needs.
  virtual void SaveModel(TensorFile* file) const = 0;
  // Takes the parameters of a model or checkpoint, and its occupancy grid if it has the same
  // levels. Optimizer state starts at zero.
  virtual absl::Status Initialize(const TensorFile& file) = 0;

  // For the watchdog. Keeps a copy of the whole state, in place of the one before; restores it.
  // Restore needs a Remember before it.
  virtual void Remember() {
    remembered_ = TensorFile();
    Save(&remembered_);
  }
  virtual absl::Status Restore() { return Load(remembered_); }

  // The current evaluation weights, rounded as SaveModel rounds them.
  virtual std::unique_ptr<TrainedModel> Snapshot() const = 0;

  // The lenses whose focal lengths it learns, as found so far.
  virtual std::vector<LensScale> FoundLenses() const { return {}; }

  // The pose of a training view's camera as found so far, of the one that the data set states.
  virtual Mat34 FoundPose(int view, const Mat34& stated) const { return stated; }

  // For the watchdog, where the method has an occupancy grid. Share of occupied cells; marks every
  // cell occupied that may be.
  virtual double OccupiedFraction() const { return 1; }
  virtual void ReopenGrid() {}

  // Cells of a grid that are known to hold nothing (FindEmptyCells).
  using EmptyCells = std::function<std::vector<uint64_t>(const OccupancyGrid& grid)>;
  // Before the first step, and before Load or Initialize: keeps these cells empty, where the method
  // has an occupancy grid and the cameras stay where they are.
  virtual void KeepEmpty(const EmptyCells& cells) {}
  // After KeepEmpty, before the first step: a step with DrawsPixels draws from these runs
  // (PictureSet::runs) alone; none: goes on as before.
  virtual void DrawFrom(std::span<const uint32_t> runs) {}

 private:
  TensorFile remembered_;
};

}  // namespace nerf
