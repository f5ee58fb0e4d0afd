#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/field/files/tensor_file.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/pixel_batch.h"

namespace nerf {

// How far the views of a training are from their pictures: for each picture a map of kSide x kSide
// cells with the mean absolute error of the pixels there, a running mean over the rays that met
// them. Part of a training's state: F32 tensor view.errors [n_views, kSide, kSide].
class PictureErrors {
 public:
  static constexpr int kSide = 16, kCells = kSide * kSide;

  // Empty where share is 0; else all cells have the same error. share: of a batch's pixels that
  // are drawn by the errors, below 1.
  PictureErrors(std::span<const View> views, float share);

  bool empty() const { return errors_.empty(); }
  float share() const { return share_; }
  std::span<const float> errors() const { return errors_; }  // [n_views * kCells]

  // Takes in the errors of a batch's rays, [batch.n_pixels], in their order: means over channels of
  // |color - target|. Those of pixels with weight 0 count as 0; those that are not finite are left
  // out.
  void Observe(const PixelBatch& batch, std::span<const float> errors);

  void Save(TensorFile* file) const;
  // Errors: InvalidArgument naming the tensor, also for values that are negative or not finite;
  // nothing is then changed.
  absl::Status Load(const TensorFile& file);

 private:
  float share_ = 0;
  std::vector<ReducedSize> sizes_;  // of the views' full pictures
  std::vector<float> errors_;
};

// The index in PictureErrors::errors of the cell that has a pixel of a picture of this size. Cells
// are of equal size but for rounding; those of pictures below kSide pixels may have none.
inline int ErrorCell(const Pixel& pixel, ReducedSize size) {
  constexpr int kSide = PictureErrors::kSide;
  const int column = static_cast<int>(int64_t{pixel.x} * kSide / size.width);
  const int row = static_cast<int>(int64_t{pixel.y} * kSide / size.height);
  return (pixel.view * kSide + row) * kSide + column;
}

}  // namespace nerf
