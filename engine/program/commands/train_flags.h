#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/program/commands/evaluation_report.h"
#include "engine/program/console/command.h"
#include "engine/program/session/rank_session.h"
#include "engine/program/session/training_session.h"

namespace nerf {

inline constexpr int kProfiledSteps = 20;  // by --torch-trace: a step has thousands of operations

// The flags of `nerf-engine train`.
struct TrainFlags {
  std::string dataset, out, method = "ngp", device = "cpu", background = "auto";
  double steps = 0, samples = 0, seconds = 0;
  uint32_t stop_after = 0, seed = 1;
  int threads = 0, test_every = 8;
  std::string resume, init, init_scope = "all", init_from;
  std::vector<std::string> settings;  // key=value
  double checkpoint_interval = 30;    // seconds
  bool json = false, no_eval = false, tensorboard = false;
  ScoreFlags scores;
  std::string trace, torch_trace;
  int max_side = -1, downscale = 0;
  ReadingFlags reading;
  PicturePlace pictures = PicturePlace::kAuto;
  std::string picture_file;  // empty: in the output folder until the training is over
  RankFlags ranks;
  bool has_steps = false, has_samples = false, has_seconds = false, has_stop_after = false;

  bool HasBudget() const { return has_steps || has_samples || has_seconds; }
  // The budget that a flag names, else `unset`.
  Budget BudgetOr(const Budget& unset) const;
  // The file of decoded pictures. "": none is named, and this rank has no output folder.
  std::string PictureFile() const;
};

// Adds all of them to the command. `flags` outlives it and is complete when its callback runs.
void AddTrainFlags(CLI::App* command, TrainFlags* flags);

// The config that the flags ask for, once all of them are checked. Errors: InvalidArgument that
// names every wrong flag.
absl::StatusOr<TrainConfig> CheckTrainFlags(const TrainFlags& flags);

// Errors: InvalidArgument if --torch-trace is given and the config's method has no profile.
absl::Status CheckHasProfile(const TrainFlags& flags, const TrainConfig& config);

}  // namespace nerf
