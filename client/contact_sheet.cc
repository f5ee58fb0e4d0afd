#include "client/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/atomic_file.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kGap = 4;  // pixels between pictures
constexpr int kChannels = 3;

void CopyInto(const ImageU8& image, int left, int top, ImageU8* sheet) {
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      std::memcpy(&sheet->pixels[(size_t(top + y) * sheet->width + left + x) * kChannels],
                  image.Pixel(x, y), kChannels);
    }
  }
}

}  // namespace

absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path) {
  if (files.empty()) return absl::InvalidArgumentError("a contact sheet needs at least one image");
  int width = 0, height = 0;
  for (const std::string& file : files) {
    NERF_ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(file));
    width = std::max(width, header.width);
    height = std::max(height, header.height);
  }
  const int n = static_cast<int>(files.size());
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(n))));
  const int rows = (n + columns - 1) / columns;
  ImageU8 sheet;
  sheet.width = columns * (width + kGap) - kGap;
  sheet.height = rows * (height + kGap) - kGap;
  sheet.n_channels = kChannels;
  const absl::Status fits = CheckImageLimits({.width = sheet.width, .height = sheet.height}, {});
  if (!fits.ok()) {
    return WithReason(absl::ResourceExhaustedError(
                          fmt::format("{}: a sheet of {} views would have {}x{} pixels: {}", path,
                                      n, sheet.width, sheet.height, std::string(fits.message()))),
                      reason::kSizeLimit);
  }
  sheet.pixels.assign(size_t{kChannels} * sheet.width * sheet.height, 255);
  for (int i = 0; i < n; ++i) {
    NERF_ASSIGN_OR_RETURN(const ImageU8 image, DecodeImage(files[i]));
    CopyInto(image, i % columns * (width + kGap), i / columns * (height + kGap), &sheet);
  }
  NERF_ASSIGN_OR_RETURN(const std::string png, EncodePng(sheet));
  return WriteFileAtomically(path, png);
}

}  // namespace nerf
