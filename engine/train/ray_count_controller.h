#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"
#include "engine/train/training_step.h"

namespace nerf {

// What a RayCountController remembers; part of a checkpoint.
struct RayCountState {
  int n_rays = 0;  // of the next step
  // Sums over the steps so far; older steps count less.
  double n_trained = 0, n_marched = 0, n_summed_rays = 0;
  bool operator==(const RayCountState&) const = default;
};

// Most samples marched for each sample to train.
inline constexpr int kMarchedPerTarget = 16;

struct RayCountOptions {
  int initial_rays = 256;
  int max_rays = 65536;
};

// Chooses the number of rays of each step so that the next one trains about target_samples samples,
// marches at most kMarchedPerTarget times as many, and grows at most twofold from one step to the
// next. A multiple of 64, from 64 to max_rays (max_rays itself if that is below 64). A pure
// function of its state and the steps' results.
class RayCountController {
 public:
  explicit RayCountController(const RayCountOptions& options);

  int n_rays() const { return state_.n_rays; }
  // After a step. target_samples: trained samples of the next one.
  void Update(const StepResult& result, int target_samples);

  const RayCountState& state() const { return state_; }
  void Restore(const RayCountState& state);

  // Part of a checkpoint, as metadata ray_count.*. Errors: InvalidArgument naming the key.
  void Save(TensorFile* file) const;
  static absl::StatusOr<RayCountState> Load(const TensorFile& file);

 private:
  int Clamped(double n_rays) const;

  RayCountOptions options_;
  RayCountState state_;
};

}  // namespace nerf
