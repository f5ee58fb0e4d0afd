#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/method_settings.h"
#include "engine/base/placement.h"
#include "engine/base/scene_reading.h"

namespace nerf {

// What stands for "auto" in settings that may be so: the program chooses.
inline constexpr int kAutoSetting = -1;

enum class BudgetKind { kSteps, kSamples, kSeconds };

// How long to train. Every schedule is a function of the fraction that is spent.
struct Budget {
  BudgetKind kind = BudgetKind::kSamples;
  double amount = 40e6;  // steps, trained samples or seconds of training
  bool operator==(const Budget&) const = default;
};

enum class Background { kAuto, kWhite, kBlack, kRandom };
enum class Loss { kHuber, kMse };

// Everything that shapes the trained bytes. Threads, devices and paths are not part of it. The
// typed fields come first; the others are settings, which have keys. Settings that only one method
// has are in `method_settings`. Defaults are those of method ngp; DefaultConfig (engine/methods/
// describe/method_descriptions.h) has those of any method.
struct TrainConfig {
  std::string method = "ngp";
  uint32_t seed = 1;
  Budget budget;
  Background background = Background::kAuto;  // kAuto: random where images have alpha, else black
  int test_every = 8;  // for data sets without a split of their own; 0 holds out none
  int max_side = -1;   // longer side of training pictures; 0: as they are; negative: by the budget
  int evaluate = 1;    // the test views at the end

  // Sampling. Negative near, step and cone mean the scene's own; step is never 0.
  float near = -1, step = -1, cone = -1;
  float far = -1;                                  // negative: rays end where they leave the boxes
  Placement placement;                             // of the data set
  PoseConvention poses = PoseConvention::kOpenGl;  // SceneReading
  int apply_exif = 0;
  int alpha_is_mask = 0;
  float initial_step_scale = kAutoSetting;  // see StepScale (engine/train/schedule.h)
  // What a step trains; see StepSize.
  int target_samples = kAutoSetting;
  float batch_growth = kAutoSetting;
  int initial_rays = 256;
  int max_rays = kAutoSetting;
  float min_transmittance = kAutoSetting;  // see MinTransmittance
  int rays_per_pixel = kAutoSetting;       // see RaysPerPixel
  float alpha_threshold = 0;
  // Occupancy grid.
  int grid_resolution = kAutoSetting;  // see GridResolution
  int grid_update_interval = 16;
  float grid_decay = 0.85f;
  float grid_threshold = 0.03f;
  // Optimization.
  Loss loss = Loss::kHuber;
  float huber_delta = 0.3f;
  float distortion = 3e-3f;  // weight in the loss, at first
  float learning_rate = 3e-2f;
  int warmup_steps = 100;
  float beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-15f;
  float loss_scale = 128;
  float ema_decay = 0.95f;
  // On CUDA devices; the CPU is deterministic.
  int cuda_fp32 = 0;
  int cuda_deterministic = 0;

  MethodSettings method_settings;

  bool operator==(const TrainConfig&) const = default;
};

// Errors: InvalidArgument naming the field if budget or test_every is out of range.
absl::Status CheckBudgetAndSplit(const TrainConfig& config);

// "steps", "samples", "seconds"; "auto", "white", "black", "random"; "huber", "mse".
std::string_view BudgetKindName(BudgetKind kind);
std::string_view BackgroundName(Background background);
std::string_view LossName(Loss loss);
// Inverse; InvalidArgument that lists what is allowed.
absl::StatusOr<BudgetKind> ParseBudgetKind(std::string_view name);
absl::StatusOr<Background> ParseBackground(std::string_view name);
absl::StatusOr<Loss> ParseLoss(std::string_view name);

// The transmittance behind which a training ray ends.
inline constexpr float kMinTransmittance = 3e-2f;  // where the setting is "auto"
inline float MinTransmittance(const TrainConfig& config) {
  return config.min_transmittance == kAutoSetting ? kMinTransmittance : config.min_transmittance;
}

// Rays whose mean color a pixel shows, in views and, from half of the budget on, in training.
inline int RaysPerPixel(const TrainConfig& config) {
  return config.rays_per_pixel == kAutoSetting ? 1 : config.rays_per_pixel;
}

// Cells along a side of the occupancy grid.
inline constexpr int kGridResolution = 128;  // where the setting is "auto"
inline int GridResolution(const TrainConfig& config) {
  return config.grid_resolution == kAutoSetting ? kGridResolution : config.grid_resolution;
}

}  // namespace nerf
