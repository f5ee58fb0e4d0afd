#include "engine/views/view_comparison.h"

#include <algorithm>
#include <cstdlib>

#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/draw_text.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_compare.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/pictures/image_resize.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kMaxCellSide = 400;  // pixels
constexpr size_t kMaxRows = 12;
constexpr size_t kMaxKept = 96;  // views whose cells are held; a multiple of the rows
constexpr int kGain = 3;         // of the difference
constexpr int kCellGap = 4;

ImageU8 DifferenceOf(const ImageU8& a, const ImageU8& b) {
  ImageU8 difference = a;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const int off = std::abs(int{a.pixels[i]} - b.pixels[i]) * kGain;
    difference.pixels[i] = static_cast<uint8_t>(std::min(255, off));
  }
  return difference;
}

void CopyInto(const ImageU8& cell, int left, int top, ImageU8* sheet) {
  for (int y = 0; y < cell.height; ++y) {
    std::copy_n(cell.Pixel(0, y), static_cast<size_t>(cell.width) * 3,
                sheet->pixels.begin() + (static_cast<int64_t>(top + y) * sheet->width + left) * 3);
  }
}

// Smaller than `scale` where the name needs it, and shortened where that is not enough.
void WriteName(std::string_view path, int scale, ImageU8* cell) {
  const auto room = [&](int smaller) {
    return static_cast<size_t>(std::max(0, cell->width / smaller - 4) / 4);
  };
  const int smallest = (scale + 1) / 2;  // that can still be read
  while (scale > smallest && NameInPicture(path, path.size()).size() > room(scale)) --scale;
  const std::string name = NameInPicture(path, room(scale));
  if (name.empty()) return;
  // On black, as photographs may have any color.
  const int right = std::min(cell->width, TextWidth(name, scale) + 4 * scale);
  const int bottom = std::min(cell->height, TextHeight(scale) + 4 * scale);
  for (int y = 0; y < bottom; ++y) {
    const auto row = cell->pixels.begin() + static_cast<int64_t>(y) * cell->width * 3;
    std::fill(row, row + static_cast<int64_t>(right) * 3, uint8_t{0});
  }
  DrawText(name, 2 * scale, 2 * scale, scale, {255, 255, 255}, cell);
}

}  // namespace

std::string NameInPicture(std::string_view path, size_t max_size) {
  std::string name;
  for (const char c : path.substr(path.rfind('/') + 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // UTF-8: within a character
    name += byte < 0x20 || byte >= 0x7F ? '?' : c;
  }
  constexpr std::string_view kDots = "..";
  if (name.size() <= max_size) return name;
  if (max_size <= kDots.size()) return "";
  // More of the end: names differ there.
  const size_t head = (max_size - kDots.size()) / 3, tail = max_size - kDots.size() - head;
  return name.substr(0, head).append(kDots) + name.substr(name.size() - tail);
}

absl::StatusOr<ImageU8> PhotographAs(const std::string& path, int width, int height,
                                     Vec3 background, bool apply_exif) {
  NERF_ASSIGN_OR_RETURN(ImageU8 image, DecodeImage(path));
  if (apply_exif) {
    NERF_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadRegularFile(path, ImageLimits().max_file_bytes));
    image = Upright(image, ParseExif(FindExif(bytes)).orientation);
  }
  return CompositedOn(AreaResized(image, width, height), background);
}

double ViewComparison::Add(const ImageU8& photograph, const ImageU8& view, std::string_view path) {
  psnrs_.push_back(Psnr(photograph, view));
  if (psnrs_.size() > kMaxKept) return psnrs_.back();
  const ReducedSize size = FitSide(view.width, view.height, kMaxCellSide);
  ImageU8 a = AreaResized(photograph, size.width, size.height);
  const ImageU8 b = AreaResized(view, size.width, size.height);
  ImageU8 difference = DifferenceOf(a, b);
  const int scale = std::max(1, std::min(size.width, size.height) / 80);
  DrawText(fmt::format("{:.2f} dB", psnrs_.back()), 2 * scale, 2 * scale, scale, {255, 255, 255},
           &difference);
  WriteName(path, scale, &a);
  cells_.push_back(std::move(a));
  cells_.push_back(b);
  cells_.push_back(std::move(difference));
  return psnrs_.back();
}

double ViewComparison::mean_psnr() const {
  double sum = 0;
  for (const double psnr : psnrs_) sum += psnr;
  return psnrs_.empty() ? 0 : sum / static_cast<double>(psnrs_.size());
}

absl::Status ViewComparison::Write(const std::string& path) const {
  if (cells_.empty()) return absl::InvalidArgumentError("no views to compare");
  const size_t n = cells_.size() / 3, n_rows = std::min(n, kMaxRows);
  std::vector<size_t> rows;
  for (size_t i = 0; i < n_rows; ++i) rows.push_back(n_rows < 2 ? 0 : i * (n - 1) / (n_rows - 1));
  ImageU8 sheet;
  sheet.n_channels = 3;
  sheet.height = -kCellGap;
  for (const size_t row : rows) {
    sheet.width = std::max(sheet.width, 3 * cells_[3 * row].width + 2 * kCellGap);
    sheet.height += cells_[3 * row].height + kCellGap;
  }
  sheet.pixels.assign(static_cast<size_t>(sheet.width) * sheet.height * 3, 255);
  int top = 0;
  for (const size_t row : rows) {
    for (size_t i = 0; i < 3; ++i) {
      const ImageU8& cell = cells_[3 * row + i];
      CopyInto(cell, static_cast<int>(i) * (cell.width + kCellGap), top, &sheet);
    }
    top += cells_[3 * row].height + kCellGap;
  }
  return WritePng(path, sheet);
}

}  // namespace nerf
