#include "engine/field/parameters/lens_scales.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/status_macros.h"
#include "engine/field/parameters/dense_parameters.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kLensesTensor = "view.lenses";
constexpr uint32_t kWidth = 14;
// Sides of reduced pictures are rounded to whole pixels: by 0.1% from 500 pixels on.
constexpr float kTolerance = 2e-3f;
// A found focal length beyond these factors is no correction: files hold the nearest, and those
// that state one are refused.
constexpr float kMinScale = 0.01f, kMaxScale = 100;

bool AreNear(float a, float b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

bool IsSameDistortion(const LensDistortion& a, const LensDistortion& b) {
  return a.k1 == b.k1 && a.k2 == b.k2 && a.k3 == b.k3 && a.p1 == b.p1 && a.p2 == b.p2 &&
         a.k4 == b.k4 && a.k5 == b.k5 && a.k6 == b.k6;
}

}  // namespace

LensScale LensScaleOf(const Camera& camera) {
  const auto width = static_cast<float>(std::max(1, camera.width));
  const auto height = static_cast<float>(std::max(1, camera.height));
  return {.lens = camera.lens,
          .fl_x = camera.fl_x / width,
          .fl_y = camera.fl_y / height,
          .cx = camera.cx / width,
          .cy = camera.cy / height,
          .distortion = LensOf(camera).distortion};
}

bool IsSameLens(const LensScale& a, const LensScale& b) {
  return a.lens == b.lens && AreNear(a.fl_x, b.fl_x) && AreNear(a.fl_y, b.fl_y) &&
         AreNear(a.cx, b.cx) && AreNear(a.cy, b.cy) && IsSameDistortion(a.distortion, b.distortion);
}

Camera WithFoundFocal(std::span<const LensScale> lenses, const Camera& camera) {
  Camera found = camera;
  const LensScale stated = LensScaleOf(camera);
  for (const LensScale& lens : lenses) {
    if (!IsSameLens(lens, stated)) continue;
    found.fl_x *= lens.scale;
    found.fl_y *= lens.scale;
    break;
  }
  return found;
}

void SaveLensScales(std::span<const LensScale> lenses, TensorFile* file) {
  if (lenses.empty()) return;
  std::vector<float> values;
  for (const LensScale& lens : lenses) {
    const LensDistortion& d = lens.distortion;
    const float scale = std::clamp(lens.scale, kMinScale, kMaxScale);
    for (const float value : {static_cast<float>(lens.lens), lens.fl_x, lens.fl_y, lens.cx, lens.cy,
                              d.k1, d.k2, d.k3, d.p1, d.p2, d.k4, d.k5, d.k6, scale}) {
      values.push_back(value);
    }
  }
  file->tensors[kLensesTensor] =
      TensorFromFloats(values.data(), {static_cast<uint32_t>(lenses.size()), kWidth}, DType::kF32);
}

absl::StatusOr<std::vector<LensScale>> ReadLensScales(const TensorFile& file) {
  std::vector<LensScale> lenses;
  const auto found = file.tensors.find(kLensesTensor);
  if (found == file.tensors.end()) return lenses;
  const uint32_t n = found->second.shape.empty() ? 0 : found->second.shape[0];
  NERF_ASSIGN_OR_RETURN(const std::vector<float> values,
                        ReadFloats(file, kLensesTensor, {n, kWidth}));
  for (uint32_t i = 0; i < n; ++i) {
    const float* const v = values.data() + size_t{kWidth} * i;
    const bool is_lens = std::all_of(v, v + kWidth, [](float x) { return std::isfinite(x); }) &&
                         v[0] >= 0 && v[0] <= static_cast<float>(kLastLensModel) &&
                         v[0] == std::floor(v[0]) && v[13] >= kMinScale && v[13] <= kMaxScale;
    if (!is_lens)
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: row {} is no lens", kLensesTensor, i));
    lenses.push_back({.lens = static_cast<LensModel>(static_cast<int>(v[0])),
                      .fl_x = v[1],
                      .fl_y = v[2],
                      .cx = v[3],
                      .cy = v[4],
                      .distortion = {v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12]},
                      .scale = v[13]});
  }
  return lenses;
}

}  // namespace nerf
