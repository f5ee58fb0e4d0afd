#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/scene/scene_reader.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"
#include "engine/train/training_step.h"

namespace nerf {

// What `nerf-engine train` and a `train` message ask for.
struct TrainRequest {
  std::string dataset;  // folder
  TrainConfig config;   // taken from the checkpoint instead where resume is set
  std::string resume;   // checkpoint file; empty: from the start
  std::string init;     // model or checkpoint file; empty: from scratch
  std::string device = "cpu";
};

// A data set and a step that are ready for a Trainer.
struct TrainingSession {
  Scene scene;
  TrainState state;
  std::unique_ptr<TrainingStep> step;
};

// Reads the files, checks that all of it fits in memory and to one another, loads the images and
// makes the step. pool outlives the session. A `stop` ends it within a picture a thread. Errors:
// InvalidArgument DATASET_INVALID (all problems in *problems), INIT_INVALID or FIELD_INVALID;
// NotFound; DataLoss; ResourceExhausted OUT_OF_MEMORY; Cancelled after a stop.
absl::StatusOr<std::unique_ptr<TrainingSession>> OpenTrainingSession(
    const TrainRequest& request, ThreadPool* pool, std::vector<SceneProblem>* problems,
    const std::stop_token& stop);

// Writes both files, each whole or not at all. The model is what the checkpoint would be promoted
// to.
absl::Status WriteTrainingFiles(const Trainer& trainer, const std::string& checkpoint_path,
                                const std::string& model_path);

// Creates a folder with its parents where it is not there. Errors: those of the file system, naming
// it.
absl::Status CreateFolder(const std::string& path);

// Most memory that this process has held so far.
int64_t PeakRssBytes();

}  // namespace nerf
