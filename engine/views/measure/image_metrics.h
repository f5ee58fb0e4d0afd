#pragma once

#include <cstddef>

#include "engine/base/parallel_for.h"
#include "engine/scene/pictures/image.h"
#include "engine/scene/pictures/image_compare.h"  // IWYU pragma: export

namespace nerf {

// Whether a pixel of a photograph is compared: with alpha_is_mask (Scene), if its mask is at least
// half white.
bool PixelCounts(const ImageU8& photograph, bool alpha_is_mask, size_t pixel);

// The PSNR of a rendered RGB image against a photograph composited on `background`, over the pixels
// that count; NaN if there are none.
double PsnrAgainst(const ImageU8& photograph, Vec3 background, bool alpha_is_mask,
                   const ImageU8& rendered);

// A copy of `image` that shows the photograph where its mask is less than half white. Requires: the
// photograph has 3 or 4 channels.
ImageU8 WithMaskedPixels(const ImageU8& image, const ImageU8& photograph);
// The colors of a photograph, without its mask.
ImageU8 WithoutAlpha(const ImageU8& photograph);

// Structural similarity: gaussian window 11x11 of sigma 1.5, over the pixels whose window lies in
// the image, mean of channels. NaN for images smaller than the window.
// Source: Wang et al. 2004.
double Ssim(const ImageU8& a, const ImageU8& b, ThreadPool* pool);

}  // namespace nerf
