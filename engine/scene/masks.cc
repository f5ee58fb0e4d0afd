#include "engine/scene/masks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nerf {

std::string FindMask(const SceneFolder& folder, std::string_view image_file) {
  constexpr std::string_view kImages = "images/";
  if (image_file.substr(0, kImages.size()) != kImages) return "";
  const std::string name = absl::StrCat("masks/", std::string(image_file.substr(kImages.size())));
  for (const std::string& candidate :
       {absl::StrCat(name, ".png"), absl::StrCat(name.substr(0, name.rfind('.')), ".png")}) {
    absl::StatusOr<std::string> found = folder.FindFile(candidate);
    if (found.ok()) return *std::move(found);
  }
  return "";
}

absl::Status ApplyMask(const ImageU8& mask, ImageU8* image) {
  if (mask.width != image->width || mask.height != image->height) {
    return absl::InvalidArgumentError(absl::StrFormat("is %dx%d, its picture %dx%d", mask.width,
                                                      mask.height, image->width, image->height));
  }
  if (image->n_channels == 4)
    return absl::InvalidArgumentError("belongs to a picture with alpha; one of them can be used");
  const size_t n = static_cast<size_t>(image->width) * image->height;
  std::vector<uint8_t> pixels(4 * n);
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* const from = image->pixels.data() + i * image->n_channels;
    for (int channel = 0; channel < 3; ++channel)
      pixels[4 * i + channel] = from[image->n_channels == 3 ? channel : 0];
    pixels[4 * i + 3] = mask.pixels[i * mask.n_channels];
  }
  image->n_channels = 4;
  image->pixels = std::move(pixels);
  return absl::OkStatus();
}

}  // namespace nerf
