#include "engine/train/batch/picture_errors.h"

#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/train/batch/coarse_views.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kErrorsTensor = "view.errors";
// About that of an untrained field, so that cells which no ray has met yet are not passed over.
constexpr float kInitialError = 0.25f;
constexpr float kRate = 0.125f;  // of the running mean

std::vector<uint32_t> ShapeOf(size_t n_views) {
  constexpr auto kSide = static_cast<uint32_t>(PictureErrors::kSide);
  return {static_cast<uint32_t>(n_views), kSide, kSide};
}

}  // namespace

PictureErrors::PictureErrors(std::span<const View> views, float share) : share_(share) {
  if (share == 0) return;
  for (const View& view : views) sizes_.push_back({view.camera.width, view.camera.height});
  errors_.assign(kCells * sizes_.size(), kInitialError);
}

void PictureErrors::Observe(const PixelBatch& batch, std::span<const float> errors) {
  NERF_CHECK(batch.pixels.size() == errors.size());
  for (size_t i = 0; i < errors.size(); ++i) {
    const Pixel& pixel = batch.pixels[i];
    const ReducedSize full = sizes_[pixel.view];
    const ReducedSize size = PictureSizeAt(batch.picture_level, full.width, full.height);
    const bool counts = batch.weights.empty() || batch.weights[i] > 0;
    const float error = counts ? errors[i] : 0;
    float& mean = errors_[ErrorCell(pixel, size)];
    if (std::isfinite(error)) mean += kRate * (error - mean);
  }
}

void PictureErrors::Save(TensorFile* file) const {
  if (empty()) return;
  file->tensors[kErrorsTensor] =
      TensorFromFloats(errors_.data(), ShapeOf(sizes_.size()), DType::kF32);
}

absl::Status PictureErrors::Load(const TensorFile& file) {
  if (empty()) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(std::vector<float> errors,
                        ReadFloats(file, kErrorsTensor, ShapeOf(sizes_.size())));
  for (const float error : errors) {
    if (!(error >= 0) || !std::isfinite(error)) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: {} is no error of a picture", kErrorsTensor, error));
    }
  }
  errors_ = std::move(errors);
  return absl::OkStatus();
}

}  // namespace nerf
