#include "client/contact_sheet.h"

#include <algorithm>
#include <cmath>

#include "common/atomic_file.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kGap = 4;  // pixels between pictures

void CopyInto(const ImageU8& image, int left, int top, ImageU8* sheet) {
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const uint8_t* from = image.Pixel(x, y);
      uint8_t* to = sheet->pixels.data() + (size_t(top + y) * sheet->width + left + x) * 3;
      for (int channel = 0; channel < 3; ++channel) to[channel] = from[image.n_channels < 3 ? 0 : channel];
    }
  }
}

}  // namespace

absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path) {
  if (files.empty()) return absl::InvalidArgumentError("a contact sheet needs at least one image");
  const int n = static_cast<int>(files.size());
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(n))));
  const int rows = (n + columns - 1) / columns;
  ImageU8 sheet;
  int width = 0, height = 0;
  for (int i = 0; i < n; ++i) {
    const absl::StatusOr<ImageU8> image = DecodeImage(files[i]);
    if (!image.ok()) return image.status();
    if (i == 0) {
      width = image->width;
      height = image->height;
      sheet.width = columns * (width + kGap) - kGap;
      sheet.height = rows * (height + kGap) - kGap;
      sheet.n_channels = 3;
      sheet.pixels.assign(size_t{3} * sheet.width * sheet.height, 255);
    }
    if (image->width != width || image->height != height) {
      return absl::InvalidArgumentError(fmt::format("{}: is {}x{}, the first image is {}x{}", files[i], image->width,
                                                    image->height, width, height));
    }
    CopyInto(*image, i % columns * (width + kGap), i / columns * (height + kGap), &sheet);
  }
  const absl::StatusOr<std::string> png = EncodePng(sheet);
  if (!png.ok()) return png.status();
  return WriteFileAtomically(path, *png);
}

}  // namespace nerf
