#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/scene/image.h"
#include "engine/scene/scene_files.h"

// Masks say how much each pixel of a photograph counts in training and evaluation: white fully,
// black not at all.
namespace nerf {

// The mask of picture images/NAME.EXT, relative to the folder: masks/NAME.EXT.png, as COLMAP calls
// it, else masks/NAME.png. Empty if there is none.
std::string FindMask(const SceneFolder& folder, std::string_view image_file);

// Puts the mask into the picture's alpha. Errors: InvalidArgument if their sizes differ, or if the
// picture has alpha.
absl::Status ApplyMask(const ImageU8& mask, ImageU8* image);

}  // namespace nerf
