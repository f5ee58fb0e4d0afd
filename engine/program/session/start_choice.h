#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/capture_views.h"
#include "engine/field/parameters/start_scope.h"
#include "engine/scene/scene.h"

namespace nerf {

// What a training is that looks for a model to start from.
struct StartWanted {
  const TrainConfig& config;
  const SceneGeometry& geometry;  // of the data set
  size_t n_train_views = 0;
  StartScope scope = StartScope::kAll;
  std::vector<CaptureView> views = {};  // those of the training; a model of some of them is of the
                                        // same capture
};

// A model to start from, and why it.
struct StartChoice {
  std::string path;
  std::string reason;  // one line
  bool same_capture = false;
};

// The best fitting of the models and checkpoints in `folder` and the folders in it (*.safetensors,
// of which headers are read). Fitting are those whose tensors and settings the training can take
// over; of these, one of the same capture comes first, then of the same kind of scene, then what
// was trained with more samples, then by path. Errors: NotFound with the reasons why the first few
// do not fit, or that there are none.
absl::StatusOr<StartChoice> ChooseStart(const std::string& folder, const StartWanted& wanted);

}  // namespace nerf
