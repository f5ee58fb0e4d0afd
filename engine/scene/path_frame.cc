#include "engine/scene/path_frame.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "engine/scene/colmap_reader.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/problem_text.h"
#include "engine/scene/scene_files.h"
#include "engine/scene/transforms_reader.h"

namespace nerf {

absl::StatusOr<SceneFrame> FrameOfTool(const std::string& dir, PathTool tool) {
  NERF_ASSIGN_OR_RETURN(const SceneFolder folder, SceneFolder::Open(dir, /*follow_links=*/true));
  if (!HasTransforms(folder) && !HasColmapModel(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": holds neither transforms.json nor a COLMAP model"));
  }
  Problems problems;
  const ListedViews listed =
      HasTransforms(folder) ? ReadTransforms(folder, &problems) : ReadColmap(folder, &problems);
  if (!problems.empty()) return absl::InvalidArgumentError(SummaryOf(problems));
  if (listed.views.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(dir, ": lists no views"));
  }
  if (tool == PathTool::kInstantNgp) {
    return ToSceneFrame(NgpPlacement(listed.ngp_scale, listed.ngp_offset));
  }
  // nerfstudio does not normalize Blender's scenes.
  if (listed.flavor == SceneFlavor::kBlender) return ToSceneFrame(Similarity());
  Similarity world;
  if (listed.flavor == SceneFlavor::kColmap) world = ColmapWorldToZUp();
  std::vector<Pose> poses;
  for (const ListedView& view : listed.views) poses.push_back(world.ApplyToPose(view.pose));
  return ToSceneFrame(Compose(NormalizingPlacement(poses), world));
}

SceneFrame FrameOfCameras(std::span<const Pose> own_poses, PathTool tool) {
  const ListedViews defaults;
  return ToSceneFrame(tool == PathTool::kInstantNgp
                          ? NgpPlacement(defaults.ngp_scale, defaults.ngp_offset)
                          : NormalizingPlacement(own_poses));
}

bool IsTrainingFrame(PathTool tool, SceneFlavor flavor) {
  return tool == PathTool::kInstantNgp ? flavor == SceneFlavor::kInstantNgp
                                       : flavor == SceneFlavor::kBlender;
}

}  // namespace nerf
