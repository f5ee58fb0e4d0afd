#pragma once

#include "engine/base/parallel_for.h"
#include "engine/scene/image.h"
#include "engine/scene/image_compare.h"  // IWYU pragma: export

namespace nerf {

// Structural similarity: gaussian window 11x11 of sigma 1.5, over the pixels whose window lies in
// the image, mean of channels. NaN for images smaller than the window.
// Source: Wang et al. 2004.
double Ssim(const ImageU8& a, const ImageU8& b, ThreadPool* pool);

}  // namespace nerf
