#pragma once

#include "engine/base/vec3.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Highest reported PSNR, also of equal images.
inline constexpr double kMaxPsnr = 100;

// RGB image of the same size, composited on `background` (white or black) in sRGB values and
// rounded to 8 bits. Images without alpha are copied.
ImageU8 CompositedOn(const ImageU8& image, Vec3 background);

// Peak signal-to-noise ratio of two RGB images of one size, in dB, over all pixels and channels.
double Psnr(const ImageU8& a, const ImageU8& b);
double PsnrFromSquaredError(double mean_squared_error);

}  // namespace nerf
