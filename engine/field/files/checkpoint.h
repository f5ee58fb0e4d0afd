#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/capture_views.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/files/watchdog_state.h"
#include "engine/field/trained_model.h"
#include "engine/scene/scene.h"

namespace nerf {

// A checkpoint resumes a training; a model is for rendering. The state is stored as strings in a
// TensorFile's metadata; the tensors are the TrainingStep's.
enum class TrainFileKind { kCheckpoint, kModel };

// How far the schedules of a training are at the shares of its budget: on a straight line from
// `start` at share `from` to 1 at the end. Another one than the budget's own where a training goes
// on to a new budget (engine/program/session/new_total.h).
struct ScheduleLine {
  double from = 0, start = 0;
  double At(double share) const {
    if (from == 0) return share;
    return start + (1 - start) * std::max(0.0, (share - from) / (1 - from));
  }
  bool operator==(const ScheduleLine&) const = default;
};

// Everything about a training except its tensors. Equal states give equal bytes: there is no time,
// path or host in it.
struct TrainState {
  TrainConfig config;
  SceneGeometry geometry;  // with near, step and cone of the config where it sets them
  Background evaluation_background = Background::kWhite;  // kWhite or kBlack
  Camera reference_camera;  // a view of the scene, training frame: size and lens of an orbit
  // What the data set held, so that a checkpoint is not continued on another one.
  uint32_t n_train_views = 0, n_test_views = 0;
  // What the training started from, in words: scope, method, step, samples and SHA-256 of the file.
  // Empty: from scratch.
  std::string made_from;
  // Cameras of the training views, for paths near them; empty in files that do not store them. In
  // models their poses are as the training has found them.
  std::vector<CaptureView> capture;
  std::vector<CaptureView> test_capture;  // likewise, of the test views

  uint32_t step = 0;  // finished
  int64_t n_trained = 0, n_marched = 0, n_rays = 0;
  // Training time. Stored only with budgets in seconds, whose schedules depend on it.
  double seconds = 0;
  WatchdogState watchdog;  // checkpoints only
  ScheduleLine schedule;   // checkpoints only
  bool operator==(const TrainState&) const = default;
};

// With alpha white, unless the config says black; without alpha black, unless it says white.
Background EvaluationBackground(Background configured, bool has_alpha);
// Background of the training rays: kAuto is random if images have alpha, else black.
Background TrainingBackground(Background configured, bool has_alpha);
Vec3 BackgroundColor(Background white_or_black);
// Precision in which a device renders models of this config: the one it trains in.
RenderPrecision RenderPrecisionOf(const TrainConfig& config);

// The geometry with near, step and cone of the config where it sets them.
SceneGeometry EffectiveGeometry(const TrainConfig& config, const SceneGeometry& geometry);

// InvalidArgument naming the setting if steps are so short that a march takes too long, or longer
// than the box. Also checked when files are read.
absl::Status CheckMarchStep(const SceneGeometry& geometry);

// Writes the state into file->metadata, with format version and kind.
void StoreTrainState(const TrainState& state, TrainFileKind kind, TensorFile* file);

struct StoredTrainState {
  TrainState state;
  TrainFileKind kind = TrainFileKind::kModel;
};
// Reads it back, bit for bit. Everything is checked for type and range. Errors: InvalidArgument
// naming `path` and the missing or wrong key, or the unknown version.
absl::StatusOr<StoredTrainState> LoadTrainState(const TensorFile& file, const std::string& path);

}  // namespace nerf
