#pragma once

#include <string_view>

namespace nerf {

// Capability of a worker that names features and no methods: it is granted trainings of every
// method.
inline constexpr std::string_view kAnyTraining = "*";

// Begins the capability of training parts of a training by themselves and of merging their models;
// the method's name follows. Also a feature of WorkerHello.
inline constexpr std::string_view kMergePrefix = "merge/";

// Begins the capability of going on from a checkpoint to another budget than its own; the method's
// name follows.
inline constexpr std::string_view kExtendPrefix = "extend/";
// Of a worker that can, as WorkerHello names it.
inline constexpr std::string_view kExtendFeature = "extend";

}  // namespace nerf
