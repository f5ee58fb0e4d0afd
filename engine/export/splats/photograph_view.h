#pragma once

#include "engine/methods/splats/fit_splats.h"
#include "engine/scene/camera.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Whether ShowPhotograph knows the lens: pinholes, with or without distortion.
bool CanShowPhotograph(const Camera& camera);

// Puts a photograph in place of what the view shows of a model, wherever the photograph reaches:
// without its distortion, reduced by area to the view's size, brighter or darker by a factor a
// channel, so that it is as bright as the model, whose training may have learned an exposure.
// alpha_is_mask: what is not fully opaque stays the model's.
// Requires: CanShowPhotograph, one pose and one middle of both cameras' lenses.
void ShowPhotograph(const Camera& camera, const ImageU8& photograph, bool alpha_is_mask,
                    SplatView* view);

}  // namespace nerf
