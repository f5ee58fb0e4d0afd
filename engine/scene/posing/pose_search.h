#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/posing/photographs/colmap_database.h"
#include "engine/scene/posing/pose_options.h"
#include "engine/scene/posing/pose_report.h"

namespace nerf {

// Finds where photographs were taken. `source` is a folder of photographs and films, with masks of
// photographs in its masks/ (photo_masks.h) where there are any, or one film;
// `out`, a folder that does not exist or is empty, receives
//   images/                           upright copies, without doubles
//   sparse/0/                         COLMAP's model: cameras, images, points3D
//   masks/                            those of photographs, and of panoramas with mask_below
//   pose.json, pose.txt, pose.png     the report, and the scene from above
// and is created completely or not at all. If fewer than min_posed_share of the usable photographs
// are posed, this is no error; the report shows it. If none is posed there is no model.
//
// Panoramas are cut into pinhole views (panorama.h), which COLMAP poses; then those of each are
// held together as a rig and adjusted, and the model is of one EQUIRECTANGULAR camera a panorama.
//
// Matches twice: a few features of all pairs, to find the pairs that overlap, then all features of
// those. Photographs that the few features show to be all of one spot are not looked at further. If
// too few photographs are posed, tries all pairs and looser thresholds, then more features, no
// longer than `patience` where the matches so far show that they are of several places. Fewer than
// kMinPosed different photographs that can be read are no error, either.
//
// Errors: NotFound, InvalidArgument of the source; Unimplemented FEATURE_NOT_BUILT without COLMAP
// or ffmpeg; FailedPrecondition if `out` is not empty; Cancelled, DeadlineExceeded,
// ResourceExhausted (memory, disk), Aborted if COLMAP failed.
absl::StatusOr<PoseReport> SearchPoses(const std::string& source, const std::string& out,
                                       const PoseOptions& options);

// Makes sure that SearchPoses can begin, and writes nothing. Errors: those that SearchPoses has
// before it reads a picture.
absl::Status CheckPoseSearch(const std::string& source, const std::string& out,
                             const PoseOptions& options);

// Pairs of photographs to match with all features: for each photograph the `per_photo` that share
// the most with it, or all that share anything if `per_photo` is 0.
std::vector<ColmapPair> StrongestPairs(const std::vector<ColmapPair>& pairs, size_t per_photo);

}  // namespace nerf
