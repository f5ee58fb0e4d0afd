#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/config/train_config.h"
#include "engine/render/render_device.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_count_controller.h"
#include "engine/train/tensor_file.h"
#include "engine/train/watchdog.h"

namespace nerf {

// A checkpoint continues a training; a model renders. Both stand as strings in a TensorFile's
// metadata, the tensors are the TrainingStep's.
enum class TrainFileKind { kCheckpoint, kModel };

// Everything about a training but its tensors. Equal states give equal bytes: there is no time,
// path or host in it.
struct TrainState {
  TrainConfig config;
  SceneGeometry geometry;  // with the config's own near, step and cone where it sets them
  Background evaluation_background = Background::kWhite;  // kWhite or kBlack
  Camera reference_camera;  // a view of the scene, training frame: size and lens of an orbit
  // What the data set held, so that a checkpoint is not continued on another one.
  uint32_t n_train_views = 0, n_test_views = 0;

  uint32_t step = 0;  // finished
  int64_t n_trained = 0, n_marched = 0, n_rays = 0;
  // Of training. Stored for budgets in seconds alone: they are the ones it shapes.
  double seconds = 0;
  RayCountState ray_count;  // checkpoints only
  WatchdogState watchdog;   // checkpoints only
  bool operator==(const TrainState&) const = default;
};

// White where images have alpha unless the config says black; black where not, unless it says
// white.
Background EvaluationBackground(Background configured, bool has_alpha);
// Of the training rays: kAuto is random where images have alpha, else black.
Background TrainingBackground(Background configured, bool has_alpha);
Vec3 BackgroundColor(Background white_or_black);
// In what a device renders the models of this config: as it trains them.
RenderPrecision RenderPrecisionOf(const TrainConfig& config);

// The geometry with near, step and cone of the config where it sets them.
SceneGeometry EffectiveGeometry(const TrainConfig& config, const SceneGeometry& geometry);

// InvalidArgument naming the setting where a march with these steps would be no march: so short
// that it does not end in reasonable time, or longer than the box. Files are held to it as well.
absl::Status CheckMarchStep(const SceneGeometry& geometry);

// Writes the state into file->metadata, with format version and kind.
void StoreTrainState(const TrainState& state, TrainFileKind kind, TensorFile* file);

struct StoredTrainState {
  TrainState state;
  TrainFileKind kind = TrainFileKind::kModel;
};
// Reads it back, bit for bit. Everything is checked for type and range. Errors: InvalidArgument
// naming `path` and the key that is missing or wrong, or the version that is not known.
absl::StatusOr<StoredTrainState> LoadTrainState(const TensorFile& file, const std::string& path);

}  // namespace nerf
