#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/problems.h"
#include "engine/scene/scene.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// Whether the folder has the files of a data set that can be read: transforms files, a COLMAP
// model, LLFF's poses or Polycam's cameras.
bool HasSceneFiles(const std::string& dir);

// Detects the format of the data set in `dir` (transforms_{train,val,test}.json, transforms.json, a
// COLMAP model, poses_bounds.npy or Polycam's keyframes), reads everything but the pixels, and
// lists every problem. Never fails: a missing folder is a problem too. After a stop the description
// is incomplete and does not say so.
SceneDescription DescribeScene(const std::string& dir, const SceneOptions& options = {});

// Reads and decodes a data set. Errors: NotFound if there is no folder `dir`; InvalidArgument if
// the data set has problems (all of them in *problems unless null, the first few in the message);
// ResourceExhausted, before any pixel is decoded, if the images need more than memory_limit_bytes;
// Cancelled after a stop.
absl::StatusOr<Scene> LoadScene(const std::string& dir, const SceneOptions& options = {},
                                Problems* problems = nullptr);

}  // namespace nerf
