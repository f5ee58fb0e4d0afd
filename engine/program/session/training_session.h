#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config/method_description.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/parameters/start_scope.h"
#include "engine/scene/picture_file.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/reduce_views.h"
#include "engine/scene/scene.h"
#include "engine/train/group/group.h"
#include "engine/train/trainer.h"
#include "engine/train/training_step.h"

namespace nerf {

// Where the decoded training pictures are. kAuto: in memory where the training fits, else in a
// file. CUDA devices take them from memory alone.
enum class PicturePlace { kMemory, kFile, kAuto };

// The request of `nerf-engine train` or of a `train` message.
struct TrainRequest {
  std::string dataset;  // folder
  TrainConfig config;   // ignored if resume is set: the checkpoint has its own
  std::string resume;   // checkpoint file; empty: from the start
  std::string init;     // model or checkpoint file; empty: from scratch
  std::string device = "cpu";
  bool follow_links = false;  // SceneOptions
  Group* group = nullptr;     // of the ranks that train together; null: this process alone
  PicturePlace pictures = PicturePlace::kMemory;
  std::string picture_file = {};        // where kFile and kAuto put the decoded training pictures
  StartScope scope = StartScope::kAll;  // what is taken from `init`
  // Model files of the parts of a training that is over: the session's model is made of them
  // (MergeModels), and nothing is left to train. `config` is ignored.
  std::vector<std::string> merge = {};
  // With `resume`: the budget in place of the checkpoint's (SetNewTotal).
  std::optional<Budget> new_total = {};
  OnPictures on_pictures = nullptr;  // SceneOptions
};

// Everything that a Trainer needs.
struct TrainingSession {
  Scene scene;
  TrainState state;
  std::string device = "cpu";  // of the step
  std::unique_ptr<TrainingStep> step;
  std::string chosen;     // settings that the user left to the program; empty: none
  SceneFacts facts;       // that they follow from; of a new training alone
  Reductions reductions;  // of pictures, from the sizes of their files
  // Has the pixels of scene.train, whose images then have none; null: these have them.
  std::unique_ptr<PictureFile> pictures;

  std::span<const uint8_t> TrainPixels(size_t view) const {
    if (pictures != nullptr) return pictures->Pixels(view);
    return scene.train[view].image.pixels;
  }
};

// Reads the files, checks that they fit together and into memory, loads the images and makes the
// step. A `stop` takes effect when each thread has finished its image or part of the grid. pool
// outlives the session.
// Errors: InvalidArgument DATASET_INVALID (all problems in *problems), INIT_INVALID or
// FIELD_INVALID; NotFound; DataLoss; ResourceExhausted OUT_OF_MEMORY; Cancelled after a stop.
absl::StatusOr<std::unique_ptr<TrainingSession>> OpenTrainingSession(const TrainRequest& request,
                                                                     ThreadPool* pool,
                                                                     Problems* problems,
                                                                     const std::stop_token& stop);

// Before a step of the session's scene takes a state or trains: has it keep cells empty that the
// pictures show empty (FindEmptyCells), and tells it the runs of pixels to draw from, which it
// returns (Scene::shown_runs). Errors: Cancelled after a stop.
absl::StatusOr<std::vector<uint32_t>> KeepSeenEmpty(const TrainingSession& session,
                                                    ThreadPool* pool, TrainingStep* step,
                                                    const std::stop_token& stop = {});

// Writes checkpoint and model of the current step, each whole or not at all.
absl::Status WriteTrainingFiles(const Trainer& trainer, const std::string& checkpoint_path,
                                const std::string& model_path);

// Creates a folder and its parents if missing. Errors: those of the file system, naming the folder.
absl::Status CreateFolder(const std::string& path);

// Largest resident memory of this process so far.
int64_t PeakRssBytes();

}  // namespace nerf
