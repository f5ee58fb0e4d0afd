#include "engine/scene/cameras/path_frame.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/placement.h"
#include "engine/scene/read/colmap_reader.h"
#include "engine/scene/read/transforms_reader.h"

namespace nerf {
namespace {

// The frame of a similarity of positions relative to the origin.
SceneFrame FrameAbout(const Similarity& similarity, const Vec3d& origin) {
  SceneFrame frame = ToSceneFrame(similarity);
  frame.origin = origin;
  return frame;
}

// Instant-ngp's, whose numbers are for positions relative to 0.
SceneFrame NgpFrameAbout(const ListedViews& listed, const Vec3d& origin) {
  Vec3d offset = listed.ngp_offset;
  for (size_t i = 0; i < 3; ++i) offset[i] += listed.ngp_scale * origin[i];
  return FrameAbout(NgpPlacement(listed.ngp_scale, offset), origin);
}

}  // namespace

absl::StatusOr<SceneFrame> FrameOfTool(const std::string& dir, PathTool tool) {
  NERF_ASSIGN_OR_RETURN(const SceneFolder folder, SceneFolder::Open(dir, /*follow_links=*/true));
  if (!HasTransforms(folder) && !HasColmapModel(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": holds neither transforms.json nor a COLMAP model"));
  }
  Problems problems;
  ListedViews listed =
      HasTransforms(folder) ? ReadTransforms(folder, &problems) : ReadColmap(folder, &problems);
  if (!problems.empty()) return absl::InvalidArgumentError(SummaryOf(problems));
  if (listed.views.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(dir, ": lists no views"));
  }
  if (tool == PathTool::kInstantNgp) {
    const Vec3d offset = listed.ngp_offset;
    SubtractOrigin(&listed);
    listed.ngp_offset = offset;
    return NgpFrameAbout(listed, listed.origin);
  }
  // nerfstudio does not normalize Blender's scenes.
  if (listed.flavor == SceneFlavor::kBlender) return ToSceneFrame(Similarity());
  SubtractOrigin(&listed);
  Similarity world;
  if (listed.flavor == SceneFlavor::kColmap) world = ColmapWorldToZUp();
  std::vector<Pose> poses;
  for (const ListedView& view : listed.views) poses.push_back(world.ApplyToPose(view.pose));
  return FrameAbout(Compose(NormalizingPlacement(poses), world), listed.origin);
}

SceneFrame FrameOfCameras(std::span<const Pose> own_poses, const Vec3d& origin, PathTool tool) {
  return tool == PathTool::kInstantNgp ? NgpFrameAbout(ListedViews(), origin)
                                       : FrameAbout(NormalizingPlacement(own_poses), origin);
}

bool IsTrainingFrame(PathTool tool, SceneFlavor flavor, const Vec3d& origin) {
  if (origin != Vec3d{0, 0, 0}) return false;
  return tool == PathTool::kInstantNgp ? flavor == SceneFlavor::kInstantNgp
                                       : flavor == SceneFlavor::kBlender;
}

}  // namespace nerf
