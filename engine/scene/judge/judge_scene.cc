#include "engine/scene/judge/judge_scene.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/counted.h"
#include "engine/scene/judge/box_in_view.h"
#include "engine/scene/judge/judge_cameras.h"
#include "engine/scene/judge/judge_companions.h"
#include "engine/scene/judge/judge_points.h"
#include "engine/scene/judge/pose_convention.h"

namespace nerf {
namespace {

constexpr size_t kMinPictures = 3;

}  // namespace

bool JudgePoses(PoseConvention convention, ListedViews* listed, Verdicts* verdicts) {
  const std::vector<std::optional<PointError>> errors = PointErrors(listed->views);
  std::vector<bool> known(errors.size());
  for (size_t i = 0; i < errors.size(); ++i) known[i] = errors[i] && AgreesWithPoints(*errors[i]);
  const std::vector<bool> contradicts = JudgePoints(*listed, errors, verdicts);
  std::vector<Pose> poses;
  for (const ListedView& view : listed->views) poses.push_back(view.pose);
  if (listed->flavor != SceneFlavor::kColmap) poses = PosesReadAs(convention, poses);
  const std::vector<bool> strays = JudgePositions(*listed, poses, known, verdicts);
  std::vector<ListedView> kept;
  std::vector<bool> trusted;
  for (size_t i = 0; i < strays.size(); ++i) {
    if (contradicts[i] || strays[i]) continue;
    trusted.push_back(known[i]);
    kept.push_back(std::move(listed->views[i]));
  }
  listed->views = std::move(kept);
  const bool is_odd = ReadPoses(convention, listed, verdicts);
  if (!is_odd) JudgeDirections(*listed, trusted, verdicts);
  return is_odd;
}

void JudgeCount(const ListedViews& listed, Verdicts* verdicts) {
  const size_t n = listed.views.size();
  if (n == 0 || n >= kMinPictures) return;
  verdicts->Refuse(
      {listed.source, listed.flavor == SceneFlavor::kColmap ? "" : "frames",
       absl::StrCat(Counted(n, "picture"), n == 1 ? " is" : " are", " posed and present; at least ",
                    kMinPictures, " are needed, one to test with"),
       "take 20 or more from places around the scene, and find all their poses "
       "together"});
}

void JudgePlaced(const SceneFolder& folder, const SceneDescription& description, bool has_odd_poses,
                 Verdicts* verdicts) {
  JudgeCompanions(folder, description, verdicts);
  if (has_odd_poses) return;
  std::string warning = BoxOutOfViewWarning(description);
  if (!warning.empty()) verdicts->Warn({"", "", std::move(warning), ""});
}

void JudgeMaskUses(const std::vector<MaskUse>& uses, SceneDescription* description) {
  if (!description->alpha_is_mask) {
    const auto is_read = [](const MaskUse& use) { return use.n_pixels > 0; };
    const bool shows_nothing = std::any_of(uses.begin(), uses.end(), is_read) &&
                               std::all_of(uses.begin(), uses.end(), [&](const MaskUse& use) {
                                 return !is_read(use) || (use.is_masked && use.kept == 0);
                               });
    if (shows_nothing) {
      description->problems.Add(
          description->train[0].file, "",
          "all training pictures are transparent all over: there is nothing to learn");
    }
    return;
  }
  const auto masked = std::find_if(description->train.begin(), description->train.end(),
                                   [](const ViewDescription& v) { return !v.mask_file.empty(); });
  const bool has_mask = masked != description->train.end();
  JudgeMasks(uses, has_mask ? masked->mask_file : "", has_mask && masked->mask_is_inverted,
             &description->warnings, &description->problems);
}

}  // namespace nerf
