#include "engine/scene/posing/photographs/photo_masks.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_io.h"

namespace nerf {

absl::StatusOr<MaskUse> WritePhotoMask(const std::string& path, const ImageU8& image,
                                       int orientation, const std::string& out) {
  const auto named = [&](const absl::Status& status) {
    const std::string name = std::filesystem::path(path).filename().string();
    return absl::InvalidArgumentError(
        absl::StrCat("masks/", Printable(name), ": ", status.message()));
  };
  const ImageLimits limits;
  const absl::StatusOr<std::string> bytes = ReadRegularFile(path, limits.max_file_bytes);
  if (!bytes.ok()) return named(bytes.status());
  const absl::StatusOr<ImageU8> mask = DecodeImageBytes(*bytes, limits);
  if (!mask.ok()) return named(mask.status());
  const bool is_turned = orientation != 1;
  ImageU8 masked = image;
  absl::Status fits = ApplyMask(is_turned ? Upright(*mask, orientation) : *mask, &masked);
  if (!fits.ok() && is_turned) fits = ApplyMask(*mask, &masked);
  if (!fits.ok()) return named(fits);
  ImageU8 gray{masked.width, masked.height, 1, {}};
  gray.pixels.reserve(masked.pixels.size() / 4);
  for (size_t i = 3; i < masked.pixels.size(); i += 4) gray.pixels.push_back(masked.pixels[i]);
  NERF_RETURN_IF_ERROR(WritePng(out, gray));
  return UseOf(masked);
}

}  // namespace nerf
