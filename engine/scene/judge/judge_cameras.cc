#include "engine/scene/judge/judge_cameras.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "engine/scene/camera_focus.h"
#include "engine/scene/files/scene_files.h"

namespace nerf {
namespace {

// Fewer say nothing of each other: of where they look, and of how far they stand apart.
constexpr size_t kMinLooks = 6, kMinCompared = 12;
// A capture's cameras lie close to each other; the rest of it is at most so many times as far away.
// In captures of one place the furthest camera is 1.1 times as far as the next one.
constexpr double kOddGap = 10, kAbsurdGap = 30;
constexpr double kMinCore = 0.3;    // share of the cameras that lie together, at least
constexpr double kMaxStray = 0.25;  // share of the cameras that may be left out
// The same where the others look in parallel: they say nothing of the scene's size.
constexpr double kMaxParallelStray = 0.02;
constexpr double kMaxAgreeDegrees = 40, kAwayDegrees = 100, kMinAgreeShare = 0.75;
constexpr double kMinAgreement = 0.9;  // share that looks at one place, for one to look away
constexpr size_t kMaxCompared = 1000;  // cameras that are tried as the middle

double CameraDistance(const Pose& a, const Pose& b) {
  return std::hypot(a.m[0][3] - b.m[0][3], a.m[1][3] - b.m[1][3], a.m[2][3] - b.m[2][3]);
}

std::string Stand(size_t n) {
  return absl::StrCat(Counted(n, "camera"), n == 1 ? " stands" : " stand");
}

std::string Names(const ListedViews& listed, const std::vector<size_t>& views) {
  std::vector<std::string> names;
  for (const size_t i : views) names.push_back(Printable(listed.views[i].file));
  return FirstNames(names);
}

// Whether there are several views, all from the same position.
bool ShareOnePosition(const std::vector<Pose>& poses) {
  return poses.size() > 1 && std::all_of(poses.begin(), poses.end(), [&](const Pose& pose) {
           for (int i = 0; i < 3; ++i) {
             if (std::abs(pose.m[i][3] - poses[0].m[i][3]) >= 1e-9) return false;
           }
           return true;
         });
}

// Distances of all cameras from the one in the middle of the densest part of them.
std::vector<double> DistancesFromCore(const std::vector<Pose>& poses) {
  const size_t n = poses.size();
  const size_t stride = (n + kMaxCompared - 1) / kMaxCompared;
  const auto rank = static_cast<std::ptrdiff_t>(kMinCore * static_cast<double>(n));
  std::vector<double> best, distances(n);
  double best_radius = 0;
  for (size_t i = 0; i < n; i += stride) {
    for (size_t j = 0; j < n; ++j) distances[j] = CameraDistance(poses[i], poses[j]);
    std::vector<double> sorted = distances;
    std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
    const double radius = sorted[static_cast<size_t>(rank)];
    if (best.empty() || radius < best_radius) {
      best = distances;
      best_radius = radius;
    }
  }
  return best;
}

// Where a capture ends and what is far from it begins.
struct Gap {
  double core = 0, next = 0;  // distances from the middle
};

// The first gap at least so far from the middle.
std::optional<Gap> FindGap(std::vector<double> distances, double from) {
  std::sort(distances.begin(), distances.end());
  const auto begin = static_cast<size_t>(kMinCore * static_cast<double>(distances.size()));
  for (size_t i = std::max<size_t>(begin, 1); i + 1 < distances.size(); ++i) {
    const bool is_later = distances[i] > 0 && distances[i] >= from;
    if (is_later && distances[i + 1] > kOddGap * distances[i])
      return Gap{distances[i], distances[i + 1]};
  }
  return std::nullopt;
}

bool HasDirection(const ListedView& view) {
  return view.intrinsics.lens != LensModel::kEquirectangular;
}

// The cameras that stand together, and those that do not.
struct CaptureParts {
  Gap gap;
  std::vector<Pose> core;
  bool core_has_directions = true;
  std::vector<size_t> far;  // that are not trusted
  // From the core to the place that it looks at; 0 where it looks at none. Cameras stand much
  // closer to each other than to it where a tripod held them, or where a film begins with a still
  // camera.
  double scene_distance = 0;
  bool is_parallel = false;  // the core looks one way

  double scale() const { return std::max(gap.core, scene_distance); }
};

CaptureParts CapturePartsAt(const Gap& gap, const std::vector<ListedView>& views,
                            const std::vector<Pose>& poses, const std::vector<double>& distances,
                            const std::vector<bool>& trusted) {
  CaptureParts parts;
  parts.gap = gap;
  for (size_t i = 0; i < views.size(); ++i) {
    if (distances[i] < gap.next) {
      parts.core.push_back(poses[i]);
      parts.core_has_directions = parts.core_has_directions && HasDirection(views[i]);
    } else if (!trusted[i]) {
      parts.far.push_back(i);
    }
  }
  if (!parts.core_has_directions) return parts;
  const std::optional<Vec3d> focus = ClosestPointToAxes(parts.core);
  parts.is_parallel = !focus;
  if (focus && ShareLookingAt(parts.core, *focus, kMaxAgreeDegrees) >= kMinAgreeShare)
    parts.scene_distance = MedianDistance(parts.core, *focus);
  return parts;
}

// Cameras far from all others.
std::vector<bool> FindStrays(const ListedViews& listed, const std::vector<Pose>& poses,
                             const std::vector<bool>& trusted, Verdicts* verdicts) {
  const std::vector<ListedView>& views = listed.views;
  std::vector<bool> strays(views.size(), false);
  const std::vector<double> distances = DistancesFromCore(poses);
  const auto n = static_cast<double>(views.size());
  const auto share_of = [&](const CaptureParts& parts) {
    return static_cast<double>(parts.far.size()) / n;
  };
  const auto is_sure_of = [&](const CaptureParts& parts) {
    const bool are_few =
        static_cast<double>(parts.far.size()) <= std::max(1.0, kMaxParallelStray * n);
    return parts.gap.next > kAbsurdGap * parts.scale() && 2 * parts.core.size() >= views.size() &&
           (parts.scene_distance > 0 || (parts.is_parallel && are_few));
  };
  // Gaps within a capture, such as between tripods, come before those around it.
  CaptureParts parts;
  for (std::optional<Gap> gap = FindGap(distances, 0); gap; gap = FindGap(distances, gap->next)) {
    parts = CapturePartsAt(*gap, views, poses, distances, trusted);
    const bool is_odd = gap->next > kOddGap * parts.scale();
    if (is_odd && (is_sure_of(parts) || share_of(parts) <= kMaxStray)) break;
    parts.far.clear();
  }
  const std::vector<size_t>& far = parts.far;
  if (far.empty()) return strays;
  const size_t furthest = *std::max_element(
      far.begin(), far.end(), [&](size_t a, size_t b) { return distances[a] < distances[b]; });
  Verdict said{
      views[furthest].PoseFile(), views[furthest].field,
      absl::StrFormat("%s far from all others (%s), %.4g from their middle; they lie "
                      "within %.4g of it",
                      Stand(far.size()), Names(listed, far), distances[furthest], parts.gap.core),
      ""};
  if (!is_sure_of(parts)) {
    said.remedy = "correct or remove their poses, unless they are right";
    verdicts->Warn(said);
    return strays;
  }
  if (share_of(parts) > kMaxStray) {
    said.remedy =
        "that is too much for one capture; the poses are of several models or units: take those "
        "of one";
    verdicts->Refuse(said);
    return strays;
  }
  for (const size_t i : far) strays[i] = true;
  said.cause += "; left out of box and training";
  said.remedy = "correct the pose, or remove the picture from the list";
  verdicts->Warn(said);
  return strays;
}

// Different pictures with the same pose to the last digit.
void JudgeSamePoses(const ListedViews& listed, Verdicts* verdicts) {
  using Key = std::tuple<std::array<double, 12>, float>;
  std::map<Key, std::vector<size_t>> groups;
  for (size_t i = 0; i < listed.views.size(); ++i) {
    const ListedView& view = listed.views[i];
    std::array<double, 12> values;
    std::copy_n(&view.pose.m[0][0], 12, values.begin());
    groups[{values, view.time}].push_back(i);
  }
  std::vector<size_t> same;
  for (const auto& [key, views] : groups) {
    const std::string& file = listed.views[views[0]].file;
    const bool is_of_several = std::any_of(views.begin(), views.end(),
                                           [&](size_t i) { return listed.views[i].file != file; });
    if (is_of_several) same.insert(same.end(), views.begin(), views.end());
  }
  if (same.empty()) return;
  const ListedView& view = listed.views[same[1]];
  verdicts->Warn({view.PoseFile(), view.field,
                  absl::StrCat(same.size(),
                               " pictures share a pose with another one, to the last "
                               "digit (",
                               Names(listed, same), ")"),
                  "unless a tripod held the camera, correct the poses or remove the pictures"});
}

// Cameras that look away from what all others look at.
void JudgeWhereTheyLook(const ListedViews& listed, const std::vector<bool>& trusted,
                        Verdicts* verdicts) {
  std::vector<Pose> poses;
  for (const ListedView& view : listed.views) {
    if (!HasDirection(view)) return;
    poses.push_back(view.pose);
  }
  const std::optional<Vec3d> focus = ClosestPointToAxes(poses);
  if (!focus || ShareLookingAt(poses, *focus, kMaxAgreeDegrees) < kMinAgreement) return;
  std::vector<size_t> away;
  for (size_t i = 0; i < poses.size(); ++i) {
    if (!trusted[i] && ShareLookingAt({&poses[i], 1}, *focus, kAwayDegrees) == 0) away.push_back(i);
  }
  if (away.empty()) return;
  const ListedView& view = listed.views[away[0]];
  verdicts->Warn(
      {view.PoseFile(), view.field,
       absl::StrCat(Counted(away.size(), "camera"), away.size() == 1 ? " looks" : " look",
                    " away from what all others look at (", Names(listed, away), ")"),
       "correct the pose, or remove the picture from the list"});
}

}  // namespace

std::vector<bool> JudgePositions(const ListedViews& listed, const std::vector<Pose>& poses,
                                 const std::vector<bool>& trusted, Verdicts* verdicts) {
  std::vector<bool> none(listed.views.size(), false);
  if (ShareOnePosition(poses)) return none;
  JudgeSamePoses(listed, verdicts);
  return listed.views.size() < kMinCompared ? none : FindStrays(listed, poses, trusted, verdicts);
}

void JudgeDirections(const ListedViews& listed, const std::vector<bool>& trusted,
                     Verdicts* verdicts) {
  std::vector<Pose> poses;
  for (const ListedView& view : listed.views) poses.push_back(view.pose);
  if (ShareOnePosition(poses)) {
    verdicts->Warn({listed.source, "", "all cameras have the same position",
                    "depth cannot be learned; move between photographs"});
    return;
  }
  if (listed.views.size() >= kMinLooks) JudgeWhereTheyLook(listed, trusted, verdicts);
}

}  // namespace nerf
