#pragma once

#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/scene/masks.h"
#include "engine/scene/scene.h"
#include "engine/scene/scene_files.h"
#include "engine/scene/scene_problem.h"
#include "engine/scene/scene_reader.h"

namespace nerf {

// Where decoded pictures go.
struct DecodedPictures {
  std::vector<View>* views = nullptr;         // null: nowhere
  PictureSink* sink = nullptr;                // in place of views[i].image
  std::vector<MaskUse>* mask_uses = nullptr;  // if set: of each picture whose alpha is a mask
};

// An image of the view's size without pixels.
ImageU8 SizeOnly(const ViewDescription& view);

// Decodes every view: turned upright, with its mask in its alpha, reduced to its camera's size.
// Damaged images become problems.
void DecodeViews(const SceneFolder& folder, const std::vector<ViewDescription>& descriptions,
                 const SceneOptions& options, ThreadPool* pool, const DecodedPictures& to,
                 std::vector<SceneProblem>* problems);

}  // namespace nerf
