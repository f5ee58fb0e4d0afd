#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/read/scene_reader.h"

namespace nerf {

// Loads the data set whose photographs a model's views are compared with, its cameras and points
// moved into the model's training frame: the data set's placement may have changed since. Prints
// warnings, also where it is most likely another data set than the model's. Errors: those of
// LoadScene, with the data set's name; InvalidArgument unless it has views of `split`, "train" or
// "test".
absl::StatusOr<Scene> LoadComparedScene(const std::string& dataset, const SceneOptions& options,
                                        const TrainState& model, const std::string& split);

// How a data set is read to be compared with a model that was trained with `trained`, on its
// training views or, at most at the default size of views, on its test views.
SceneOptions ComparedOptions(const TrainConfig& trained, ThreadPool* pool);

}  // namespace nerf
