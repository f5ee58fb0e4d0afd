#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/problems.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/view_style.h"

namespace nerf {

// Every problem by field ("crop.size[1]"), the same for client, server and engine: numbers that are
// not finite or beyond 1e9, sides that are not above 0, a turn that is no quaternion of length 1,
// colors beyond 0 to 1, eyes without a distance.
Problems ProblemsOf(const ViewStyle& style);

// A box as `x,y,z,sx,sy,sz` or with a turn `x,y,z,sx,sy,sz,qx,qy,qz,qw`. Errors: InvalidArgument
// that starts with `flag`.
absl::StatusOr<OwnBox> ParseOwnBox(std::string_view flag, std::string_view text);
// In place of a box: none, also where one is kept with a model or job.
inline constexpr std::string_view kNoCrop = "none";
// A color: white, black or #rrggbb. Errors as above.
absl::StatusOr<Vec3> ParseColor(std::string_view flag, std::string_view text);

// "none", "top-bottom" and "left-right", and back.
inline constexpr std::string_view kStereoNames[] = {"none", "top-bottom", "left-right"};
std::string_view StereoName(StereoLayout stereo);
absl::StatusOr<StereoLayout> ParseStereo(std::string_view flag, std::string_view text);

// The style of the flags --background, --crop, --panorama, --stereo and --eye-distance, as typed;
// empty where not given, --crop also `none`. Errors: InvalidArgument that names every wrong one.
struct StyleFlags {
  std::string background = "", crop = "", stereo = "none";
  bool panorama = false;
  double eye_distance = 0;
};
absl::StatusOr<ViewStyle> ParseStyle(const StyleFlags& flags);

// The size of a picture of a panorama if `asked` is requested: each eye's is twice as wide as high.
// One side of 0 follows from the other; without both an eye's has 2048 x 1024 pixels. Errors:
// InvalidArgument for two sides that do not fit or exceed the limits.
absl::StatusOr<ViewSize> PanoramaSize(StereoLayout stereo, ViewSize asked);

}  // namespace nerf
