#include "engine/base/messages/pose_check.h"

#include <fmt/format.h>

#include "common/pose_limits.h"

namespace nerf {

Problems ProblemsOf(const v1::PoseSpec& spec) {
  Problems problems;
  problems.Require(spec.min_posed() >= 0 && spec.min_posed() <= 1, "min_posed",
                   "must be above 0 and at most 1");
  const uint32_t frames = spec.film_frames();
  problems.Require(frames == 0 || (frames >= kMinFilmFrames && frames <= kMaxFilmFrames),
                   "film_frames", fmt::format("must be {} to {}", kMinFilmFrames, kMaxFilmFrames));
  problems.Require(v1::PoseSpec::Camera_IsValid(spec.camera()), "camera",
                   "must be PERSPECTIVE or EQUIRECTANGULAR");
  problems.Require(spec.into().empty() || spec.camera() != v1::PoseSpec::EQUIRECTANGULAR, "camera",
                   "must not be EQUIRECTANGULAR: panoramas cannot be added to a scene");
  const double degrees = spec.mask_below_degrees();
  problems.Require(degrees >= 0 && degrees <= 90, "mask_below_degrees", "must be 0 to 90");
  const bool may_mask = spec.into().empty() && spec.camera() != v1::PoseSpec::PERSPECTIVE;
  problems.Require(!(degrees > 0) || may_mask, "mask_below_degrees", "is of panoramas alone");
  return problems;
}

}  // namespace nerf
