#include "engine/train/batch/error_choice.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/philox.h"

namespace nerf {
namespace {

constexpr int kSide = PictureErrors::kSide;

// The pixels of a side that are in cell `i`: those with pixel * kSide / size == i.
struct Stretch {
  int begin = 0, end = 0;
};
Stretch StretchOf(int i, int size) {
  const auto first = [size](int64_t cell) {
    return static_cast<int>((cell * size + kSide - 1) / kSide);
  };
  return {first(i), first(i + 1)};
}

}  // namespace

ErrorChoice::ErrorChoice(std::span<const View> views) {
  for (const View& view : views) sizes_.push_back({view.image.width, view.image.height});
}

void ErrorChoice::Update(const PictureErrors& errors) {
  NERF_CHECK(errors.errors().size() == PictureErrors::kCells * sizes_.size());
  share_ = errors.share();
  sums_.resize(errors.errors().size());
  double sum = 0;
  size_t cell = 0;
  for (const ReducedSize& size : sizes_) {
    for (int y = 0; y < kSide; ++y) {
      const Stretch rows = StretchOf(y, size.height);
      for (int x = 0; x < kSide; ++x, ++cell) {
        const Stretch columns = StretchOf(x, size.width);
        const int n = (rows.end - rows.begin) * (columns.end - columns.begin);
        sums_[cell] = sum += static_cast<double>(n) * errors.errors()[cell];
      }
    }
  }
}

kernels::SampledPixel ErrorChoice::Choose(const uint32_t (&words)[4],
                                          const kernels::SampledPixel& uniform) const {
  if (!(sums_.back() > 0) || words[2] * 0x1p-32 >= share_) return uniform;
  // The cell whose part of the sum holds the place; at most the last one with a part.
  const double place = words[3] * 0x1p-32 * sums_.back();
  const auto found = std::upper_bound(sums_.begin(), sums_.end(), place);
  const auto cell = static_cast<int>(found - sums_.begin());
  const int view = cell / PictureErrors::kCells;
  const ReducedSize size = sizes_[view];
  const Stretch rows = StretchOf(cell / kSide % kSide, size.height);
  const Stretch columns = StretchOf(cell % kSide, size.width);
  const uint32_t x =
      columns.begin + UniformIndex(words[0], static_cast<uint32_t>(columns.end - columns.begin));
  const uint32_t y =
      rows.begin + UniformIndex(words[1], static_cast<uint32_t>(rows.end - rows.begin));
  return {view, uint64_t{y} * size.width + x};
}

}  // namespace nerf
