#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/field/kernels/ray_sampling.h"
#include "engine/train/batch/picture_errors.h"

namespace nerf {

// Chooses pixels by the errors of their cells (PictureErrors): a pixel is drawn with probability
//   p = (1 - share) / n + share * error / (sum of the errors of all n pixels),
// where a pixel has the error of its cell. Where all errors are 0, every pixel is as probable.
class ErrorChoice {
 public:
  // Among the pixels of the views' pictures. Update comes first.
  explicit ErrorChoice(std::span<const View> views);

  // Takes the errors as they are now. Requires: those of the same views.
  void Update(const PictureErrors& errors);

  // The pixel that four random words choose; uniform: the one that the first two choose among all
  // pixels.
  kernels::SampledPixel Choose(const uint32_t (&words)[4],
                               const kernels::SampledPixel& uniform) const;

 private:
  std::vector<ReducedSize> sizes_;
  double share_ = 0;
  std::vector<double> sums_;  // of pixels' errors up to each cell, with it
};

}  // namespace nerf
