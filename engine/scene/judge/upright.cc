#include "engine/scene/judge/upright.h"

#include <cmath>
#include <utility>

#include "engine/scene/pictures/exif.h"

namespace nerf {

bool IsSideways(int orientation) { return orientation >= 5; }

int OrientationOf(const SceneFolder& folder, const std::string& file) {
  constexpr size_t kMostOfHeader = size_t{1} << 18;
  const absl::StatusOr<std::string> head = ReadHead(folder.PathOf(file), kMostOfHeader);
  return head.ok() ? ParseExif(FindExif(*head)).orientation : 1;
}

bool FitsSideways(const Intrinsics& intrinsics, const ImageHeader& header) {
  constexpr double kMaxDifference = 0.01;
  if (!intrinsics.width || !intrinsics.height || header.width == header.height) return false;
  const double stated = *intrinsics.width / *intrinsics.height;
  const double aspect = static_cast<double>(header.width) / header.height;
  return std::abs(stated * aspect - 1) <= kMaxDifference;
}

std::vector<int> TurnUpright(const SceneFolder& folder, const ListedViews& listed,
                             std::vector<ImageHeader>* headers) {
  std::vector<int> orientations(headers->size(), 1);
  for (size_t i = 0; i < headers->size(); ++i) {
    ImageHeader& header = (*headers)[i];
    if (header.format != ImageFormat::kJpeg || header.width == 0) continue;
    orientations[i] = OrientationOf(folder, listed.views[i].file);
    if (IsSideways(orientations[i])) std::swap(header.width, header.height);
  }
  return orientations;
}

}  // namespace nerf
