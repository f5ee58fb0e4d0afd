#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/scene/pictures/image.h"
#include "engine/scene/pictures/masks.h"

// Masks beside photographs that are to be posed: white what counts, black what moves or is no part
// of the scene.
namespace nerf {

// Writes the mask at `path` of a photograph as `out`, a gray PNG of the photograph's size. `image`
// is the photograph, turned upright by the EXIF orientation `orientation`; so is a mask that fits
// the photograph as its file holds it. Returns what the mask leaves. Errors: InvalidArgument that
// names the mask if it cannot be read, has another aspect ratio or belongs to a photograph with
// alpha; those of writing.
absl::StatusOr<MaskUse> WritePhotoMask(const std::string& path, const ImageU8& image,
                                       int orientation, const std::string& out);

}  // namespace nerf
