#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/vec3.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// The photograph at `path` as a view of this size should look: reduced by averages, alpha
// composited on the background; turned upright by its EXIF orientation with apply_exif. Errors:
// those of decoding.
absl::StatusOr<ImageU8> PhotographAs(const std::string& path, int width, int height,
                                     Vec3 background, bool apply_exif = false);

// The name of a photograph's file as it is shown in a picture: at most max_size characters, with
// ".." for what is left out of its middle, and '?' for each character that is not ASCII.
std::string NameInPicture(std::string_view path, size_t max_size);

// Photographs beside views from the same places, and what differs, one row each, with the file's
// name written into the photograph and the PSNR in dB into the difference (three times as bright as
// it is).
class ViewComparison {
 public:
  // Both RGB and of one size; `path`: the photograph's file. Returns their PSNR, in dB.
  double Add(const ImageU8& photograph, const ImageU8& view, std::string_view path);
  size_t n_views() const { return psnrs_.size(); }
  // Mean over views; 0 without.
  double mean_psnr() const;

  // Of more views than 12, so many are shown, evenly spaced. InvalidArgument without views; what
  // writing says.
  absl::Status Write(const std::string& path) const;

 private:
  std::vector<double> psnrs_;
  std::vector<ImageU8> cells_;  // three for each view
};

}  // namespace nerf
