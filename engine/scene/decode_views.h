#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/masks.h"
#include "engine/scene/scene.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// Where decoded pictures go.
struct DecodedPictures {
  std::vector<View>* views = nullptr;         // null: nowhere
  PictureSink* sink = nullptr;                // in place of views[i].image
  std::vector<MaskUse>* mask_uses = nullptr;  // if set: of each picture whose alpha is a mask
  const std::vector<bool>* wanted = nullptr;  // null: all. Others are left as if they were good
};

// How many pictures of at most so many decoded bytes are decoded side by side, each with what its
// decoder holds beside: at least one, and as many as threads if limit_bytes is 0, no limit.
ptrdiff_t DecodesAtOnce(uint64_t largest_bytes, uint64_t limit_bytes, int n_threads);

// Decoded bytes of the largest of these files; of no picture its own bytes.
uint64_t LargestDecoded(const std::vector<std::string>& paths);

// Which views to decode to find damaged ones: of max_pixels in all, chosen evenly, and those whose
// files do not end as their format does. 0: all.
std::vector<bool> ViewsToCheck(const SceneFolder& folder, const std::vector<ViewDescription>& views,
                               uint64_t max_pixels);

// An image of the view's size without pixels.
ImageU8 SizeOnly(const ViewDescription& view);

// Decodes every view: turned upright, with its mask in its alpha, reduced to its camera's size.
// Damaged images become problems.
void DecodeViews(const SceneFolder& folder, const std::vector<ViewDescription>& descriptions,
                 const SceneOptions& options, ThreadPool* pool, const DecodedPictures& to,
                 Problems* problems);

}  // namespace nerf
