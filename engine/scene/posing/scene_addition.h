#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/posing/pose_options.h"
#include "engine/scene/posing/pose_report.h"

namespace nerf {

// Adds the photographs of `source` (as of SearchPoses) to the posed data set in `scene`: `out`
// becomes that data set with those that could be posed, in the same frame and with the same
// placement (placement.json). Poses, lenses and points that `scene` states stay as they are, to the
// last digit. Photographs of a lens of the scene, as far as size and EXIF say, share its
// intrinsics; others have a lens of their own, which is found. The report is of the new photographs
// alone. If fewer than min_posed_share of the usable ones are posed, matches all pairs and looks
// with looser thresholds; this is no error.
//
// Errors: as SearchPoses, and those of reading the scene (InvalidArgument: it has problems, no
// transforms.json or model of COLMAP, or panoramas).
absl::StatusOr<PoseReport> AddPhotographs(const std::string& source, const std::string& scene,
                                          const std::string& out, const PoseOptions& options);

// Makes sure that AddPhotographs can begin, and writes nothing.
absl::Status CheckAddition(const std::string& source, const std::string& scene,
                           const std::string& out, const PoseOptions& options);

}  // namespace nerf
