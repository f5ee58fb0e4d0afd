#pragma once

#include "engine/base/vec3.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// PSNR after color alignment: of M c + o in place of the rendered colors c, with the 3x3 matrix M
// and the offset o of this view that bring it closest to the photograph (least squares). It does
// not depend on exposure and white balance, and is never lower than that without. Pixels count as
// in PsnrAgainst (image_metrics.h); NaN if none does.
double ColorAlignedPsnr(const ImageU8& photograph, Vec3 background, bool alpha_is_mask,
                        const ImageU8& rendered);

}  // namespace nerf
