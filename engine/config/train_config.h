#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

enum class BudgetKind { kSteps, kSamples, kSeconds };

// How long to train. Every schedule is a function of the fraction of it that is spent.
struct Budget {
  BudgetKind kind = BudgetKind::kSamples;
  double amount = 40e6;  // steps, trained samples or seconds of training
  bool operator==(const Budget&) const = default;
};

enum class Background { kAuto, kWhite, kBlack, kRandom };
enum class Loss { kHuber, kMse };

// Everything that shapes the trained bytes. Threads, devices and paths are no part of it. The typed
// fields come first; those below are settings, set by key through the table that
// TrainConfigFields() returns.
struct TrainConfig {
  std::string method = "ngp";  // "ngp" or "ngp-autograd"
  uint32_t seed = 1;
  Budget budget;
  Background background = Background::kAuto;  // kAuto: random where images have alpha, else black
  int test_every = 8;  // where the data set has no split of its own; 0 holds out none

  // Field.
  int log2_hashmap_size = 17;
  int n_features_per_level = 4;  // 4 on 8 levels or 2 on 16
  int finest_resolution = 1024;  // cells along the level-0 box
  float coarse_share = 0;        // of the budget, until all levels take part
  float initial_density = 1;     // optical depth of an untrained field along the level-0 box
  // Sampling. A negative one of near, step and cone takes the scene's own; a step is never 0.
  float near = -1, step = -1, cone = -1;
  float initial_step_scale = 3;
  int target_samples = 8192;  // at first
  float batch_growth = 4;     // of target_samples, over the budget
  int initial_rays = 256;
  int max_rays = 65536;
  float min_transmittance = 3e-2f;
  float alpha_threshold = 0;
  // Occupancy grid.
  int grid_resolution = 128;
  int grid_update_interval = 16;
  float grid_decay = 0.85f;
  float grid_threshold = 0.03f;
  // Optimization.
  Loss loss = Loss::kHuber;
  float huber_delta = 0.3f;
  float distortion = 3e-3f;  // of the rays, in the loss, at first
  float learning_rate = 3e-2f;
  float mlp_rate = 0.2f;
  int warmup_steps = 100;
  float beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-15f;
  float mlp_l2 = 1e-6f;
  float loss_scale = 128;
  float ema_decay = 0.95f;
  int half_table = 1;  // on the CPU
  // On CUDA devices; the CPU is deterministic.
  int cuda_fp32 = 0;
  int cuda_deterministic = 0;

  bool operator==(const TrainConfig&) const = default;
};

// One settable field: its key, where it lives, what it may be and what it means.
struct ConfigField {
  std::string_view key;
  std::variant<int TrainConfig::*, float TrainConfig::*, Loss TrainConfig::*> member;
  double min = 0, max = 0;  // inclusive; unused for choices
  std::string_view text;    // one line for help
};

// The one table of settings, sorted by key. Server, client and engine share it.
std::span<const ConfigField> TrainConfigFields();

// Sets one field from text; whole numbers may be written as 1e6 or 1M, too. Errors: InvalidArgument
// naming the key: unknown (with the nearest known key), not a number, out of range.
absl::Status SetConfigField(std::string_view key, std::string_view value, TrainConfig* config);

// Every setting as text that SetConfigField reads back to the same bits.
std::map<std::string, std::string> ConfigSettings(const TrainConfig& config);

// Checks what spans fields: method known, budget positive and finite, test_every. Errors:
// InvalidArgument that names the field.
absl::Status ValidateConfig(const TrainConfig& config);

// "steps", "samples", "seconds"; "auto", "white", "black", "random"; "huber", "mse".
std::string_view BudgetKindName(BudgetKind kind);
std::string_view BackgroundName(Background background);
std::string_view LossName(Loss loss);
// Inverse; InvalidArgument that lists what is allowed.
absl::StatusOr<BudgetKind> ParseBudgetKind(std::string_view name);
absl::StatusOr<Background> ParseBackground(std::string_view name);
absl::StatusOr<Loss> ParseLoss(std::string_view name);

}  // namespace nerf
