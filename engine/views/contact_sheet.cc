#include "engine/views/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "common/status_macros.h"
#include "engine/scene/pictures/image_compare.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/pictures/image_resize.h"

namespace nerf {
namespace {

constexpr int kPictureGap = 4;   // pixels between pictures
constexpr int kMaxWidth = 2400;  // fills a large screen
constexpr double kMaxPixels = 12e6;
constexpr double kShape = 1.5;  // width over height that a sheet comes near to
constexpr int kChannels = 3;

// The heights of rows of this many pictures, one after the other, at this width.
std::vector<double> RowHeights(const std::vector<double>& aspects, const std::vector<int>& counts,
                               double width) {
  std::vector<double> heights;
  size_t at = 0;
  for (const int count : counts) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += aspects[at++];
    heights.push_back((width - kPictureGap * (count - 1)) / sum);
  }
  return heights;
}

std::vector<int> CountsOf(int n, int n_rows) {
  std::vector<int> counts(static_cast<size_t>(n_rows), n / n_rows);
  // The rows with one more come first: their pictures are a little smaller.
  for (int i = 0; i < n % n_rows; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

double Total(const std::vector<double>& heights) {
  double sum = kPictureGap * (static_cast<double>(heights.size()) - 1);
  for (const double height : heights) sum += height;
  return sum;
}

void CopyInto(const ImageU8& image, const SheetCell& cell, ImageU8* sheet) {
  const ImageU8 fitted = AreaResized(image.n_channels == 4 ? CompositedOn(image, {1, 1, 1}) : image,
                                     cell.width, cell.height);
  for (int y = 0; y < cell.height; ++y) {
    for (int x = 0; x < cell.width; ++x) {
      const uint8_t* pixel = fitted.Pixel(x, y);
      uint8_t* out =
          &sheet->pixels[(static_cast<size_t>(cell.y + y) * sheet->width + cell.x + x) * kChannels];
      for (int c = 0; c < kChannels; ++c) out[c] = pixel[fitted.n_channels < 3 ? 0 : c];
    }
  }
}

using Picture = std::function<absl::StatusOr<ImageU8>(size_t)>;

absl::StatusOr<ImageU8> MakeSheet(const std::vector<std::pair<int, int>>& sizes,
                                  const Picture& picture, int n_rows = 0) {
  const SheetLayout layout = LayOutSheet(sizes, n_rows);
  ImageU8 sheet;
  sheet.width = layout.width;
  sheet.height = layout.height;
  sheet.n_channels = kChannels;
  sheet.pixels.assign(size_t{kChannels} * sheet.width * sheet.height, 255);
  for (size_t i = 0; i < sizes.size(); ++i) {
    NERF_ASSIGN_OR_RETURN(const ImageU8 image, picture(i));
    CopyInto(image, layout.cells[i], &sheet);
  }
  return sheet;
}

// Which of n are shown.
std::vector<size_t> ShownOf(size_t n) {
  std::vector<size_t> shown(std::min(n, kMaxSheetPictures));
  for (size_t i = 0; i < shown.size(); ++i) {
    shown[i] = shown.size() < 2 ? 0 : i * (n - 1) / (shown.size() - 1);
  }
  return shown;
}

}  // namespace

SheetLayout LayOutSheet(const std::vector<std::pair<int, int>>& sizes, int n_rows) {
  SheetLayout layout;
  if (sizes.empty()) return layout;
  std::vector<double> aspects;
  for (const auto& [width, height] : sizes) aspects.push_back(static_cast<double>(width) / height);
  const int n = static_cast<int>(sizes.size());
  int best_rows = 1;
  double best = 0;
  if (n_rows > 0) best_rows = n_rows;
  for (int rows = 1; rows <= n && n_rows == 0; ++rows) {
    const double shape = kMaxWidth / Total(RowHeights(aspects, CountsOf(n, rows), kMaxWidth));
    // Rows of equal counts look calmer: they may be further from the shape.
    const double off = std::abs(std::log(shape / kShape)) + (n % rows == 0 ? 0 : 0.6);
    if (rows == 1 || off < best) best_rows = rows, best = off;
  }
  const std::vector<int> counts = CountsOf(n, best_rows);
  // Wide enough that no picture of the first row grows.
  double natural = kPictureGap * (counts[0] - 1);
  for (int i = 0; i < counts[0]; ++i) natural += sizes[static_cast<size_t>(i)].first;
  double width = std::min<double>(kMaxWidth, natural);
  const double height = Total(RowHeights(aspects, counts, width));
  if (width * height > kMaxPixels) width *= std::sqrt(kMaxPixels / (width * height));
  width = std::max(width, kPictureGap * (counts[0] - 1.0) + counts[0]);
  layout.width = static_cast<int>(width);
  const std::vector<double> heights = RowHeights(aspects, counts, layout.width);
  size_t at = 0;
  int y = 0;
  for (size_t row = 0; row < counts.size(); ++row) {
    const int row_height = std::max(1, static_cast<int>(std::lround(heights[row])));
    double x = 0;
    for (int i = 0; i < counts[row]; ++i, ++at) {
      const int left = static_cast<int>(std::lround(x));
      x += aspects[at] * heights[row];
      const int right = i + 1 < counts[row] ? static_cast<int>(std::lround(x)) : layout.width;
      layout.cells.push_back({left, y, std::max(1, right - left), row_height});
      x += kPictureGap;
    }
    y += row_height + kPictureGap;
  }
  layout.height = y - kPictureGap;
  // Extremely narrow pictures are at least a pixel wide, which may reach beyond the last column.
  for (const SheetCell& cell : layout.cells) {
    layout.width = std::max(layout.width, cell.x + cell.width);
  }
  return layout;
}

absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path,
                               int n_rows) {
  if (files.empty()) return absl::InvalidArgumentError("a contact sheet needs at least one image");
  const std::vector<size_t> shown = ShownOf(files.size());
  std::vector<std::pair<int, int>> sizes;
  for (const size_t i : shown) {
    NERF_ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(files[i]));
    sizes.push_back({header.width, header.height});
  }
  NERF_ASSIGN_OR_RETURN(const ImageU8 sheet,
                        MakeSheet(
                            sizes, [&](size_t i) { return DecodeImage(files[shown[i]]); },
                            std::min(n_rows, static_cast<int>(shown.size()))));
  return WritePng(path, sheet);
}

absl::StatusOr<ImageU8> ContactSheet(const std::vector<ImageU8>& pictures) {
  if (pictures.empty()) {
    return absl::InvalidArgumentError("a contact sheet needs at least one image");
  }
  const std::vector<size_t> shown = ShownOf(pictures.size());
  std::vector<std::pair<int, int>> sizes;
  for (const size_t i : shown) sizes.push_back({pictures[i].width, pictures[i].height});
  return MakeSheet(sizes, [&](size_t i) -> absl::StatusOr<ImageU8> { return pictures[shown[i]]; });
}

}  // namespace nerf
