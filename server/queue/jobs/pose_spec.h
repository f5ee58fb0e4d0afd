#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/queue/resources/blob_ref.h"
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

inline constexpr size_t kMaxPoseFiles = 5'000;  // and as many masks
inline constexpr uint32_t kMinFilmFrames = 3, kMaxFilmFrames = 2'000;

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
  std::string scene;       // id, in the same project, that the job makes. Create draws an empty one
  double min_posed = 0.9;  // share of the usable photographs
  uint32_t film_frames = 120;
  std::string into;  // id of the scene, in the same project, that they are added to; empty: none
  PoseCamera camera = PoseCamera::kAuto;
  double mask_below = 0;  // degrees under the horizon; 0: no mask

  // What older workers do not know.
  bool HasOptions() const { return !into.empty() || camera != PoseCamera::kAuto || mask_below > 0; }
  bool operator==(const PoseSpec&) const = default;
};

// How far its worker is.
struct PoseStage {
  uint32_t stage = 0, stages = 0;  // from 1; 0 before the first
  std::string doing;               // for people
  uint32_t done = 0, of = 0;       // of 0: not known
  double seconds = 0;              // of this attempt
  double eta_seconds = 0;          // 0: not known
  double matches_per_second = 0;   // 0: not known

  bool operator==(const PoseStage&) const = default;
};

// What it has found.
struct PoseResult {
  uint32_t photographs = 0, usable = 0, posed = 0, points = 0;
  double reprojection_error = 0;  // pixels
  double parallax = 0;            // degrees
  std::vector<std::string> warnings, again;
  std::optional<BlobRef> json, text, picture;  // the report

  bool operator==(const PoseResult&) const = default;
};

}  // namespace nerf
