#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/pose_limits.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// What a worker announces that finds the poses of photographs, and of films.
inline constexpr std::string_view kPoseCapability = "colmap";
inline constexpr std::string_view kFilmPoseCapability = "colmap+ffmpeg";

// A feature of workers that add photographs to scenes and are told what they were taken with; what
// such jobs want.
inline constexpr std::string_view kPoseOptionsFeature = "pose-options";
inline constexpr std::string_view kPoseOptionsCapability = "colmap+options";
inline constexpr std::string_view kFilmPoseOptionsCapability = "colmap+ffmpeg+options";

// The same of workers that read masks beside photographs, which know the options, too.
inline constexpr std::string_view kPoseMasksFeature = "pose-masks";
inline constexpr std::string_view kPoseMasksCapability = "colmap+masks";
inline constexpr std::string_view kFilmPoseMasksCapability = "colmap+ffmpeg+masks";

// A feature of workers that take nothing else, whatever their methods are.
inline constexpr std::string_view kPosesOnly = "poses-only";

enum class PoseCamera { kAuto = 0, kPerspective = 1, kEquirectangular = 2 };

// What a pose job is to do.
struct PoseSpec {
  std::vector<SceneFileRecord> files;  // photographs, films and masks; sorted by path
  // In memory, of an ended job: how many the store has, which alone still has them, and what they
  // would take (LeaveFilesInStore).
  uint32_t n_stored_files = 0;
  uint64_t stored_file_bytes = 0;
  uint32_t n_masks = 0;  // of `files`
  bool has_films = false;
  std::string scene;  // id, in the same project, that the job makes. Create draws an empty one
  double min_posed = kDefaultMinPosed;
  uint32_t film_frames = kDefaultFilmFrames;
  std::string into;  // id of the scene, in the same project, that they are added to; empty: none
  PoseCamera camera = PoseCamera::kAuto;
  double mask_below = 0;  // degrees under the horizon; 0: no mask

  // What older workers do not know.
  bool HasOptions() const { return !into.empty() || camera != PoseCamera::kAuto || mask_below > 0; }
  bool operator==(const PoseSpec&) const = default;
};

}  // namespace nerf
