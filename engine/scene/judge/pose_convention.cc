#include "engine/scene/judge/pose_convention.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/scene/camera_focus.h"

namespace nerf {
namespace {

constexpr size_t kMinCameras = 4;
constexpr double kMaxAngle = 30;  // degrees from its axis to what a camera looks at
// Shares of the cameras that look at one place. Of captures around objects all do; of the same ones
// read wrongly at most a quarter, and two thirds with transposed rotations.
constexpr double kSuspicious = 0.5, kConvincing = 0.8;
constexpr double kLessSuspicious = 0.7, kMostConvincing = 0.95;

Pose WithOpenCvAxes(Pose pose) {
  for (auto& row : pose.m) {
    row[1] = -row[1];
    row[2] = -row[2];
  }
  return pose;
}

Pose TransposedRotation(const Pose& pose) {
  Pose result = pose;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) result.m[i][j] = pose.m[j][i];
  }
  return result;
}

Pose Inverted(const Pose& pose) {
  Pose result = TransposedRotation(pose);
  for (int i = 0; i < 3; ++i) {
    result.m[i][3] = 0;
    for (int j = 0; j < 3; ++j) result.m[i][3] -= pose.m[j][i] * pose.m[j][3];
  }
  return result;
}

template <typename Change>
std::vector<Pose> Changed(const std::vector<Pose>& poses, const Change& change) {
  std::vector<Pose> changed;
  for (const Pose& pose : poses) changed.push_back(change(pose));
  return changed;
}

// Share of the cameras that look at the point closest to all axes; none if they are parallel.
std::optional<double> ShareAtOnePlace(const std::vector<Pose>& poses) {
  const std::optional<Vec3d> point = ClosestPointToAxes(poses);
  if (!point.has_value()) return std::nullopt;
  return ShareLookingAt(poses, *point, kMaxAngle);
}

}  // namespace

std::vector<Pose> PosesReadAs(PoseConvention convention, const std::vector<Pose>& given) {
  if (convention == PoseConvention::kOpenGl) return given;
  if (convention == PoseConvention::kOpenCv) return Changed(given, WithOpenCvAxes);
  std::vector<Pose> opengl = Changed(given, Inverted);
  std::vector<Pose> opencv = Changed(opengl, WithOpenCvAxes);
  const double share = ShareAtOnePlace(opencv).value_or(1);
  return ShareAtOnePlace(opengl).value_or(0) > share ? std::move(opengl) : std::move(opencv);
}

std::string PoseConventionWarning(PoseConvention read_as, const std::vector<Pose>& given) {
  constexpr std::pair<PoseConvention, const char*> kReadings[] = {
      {PoseConvention::kOpenGl, "opengl"},
      {PoseConvention::kOpenCv, "opencv"},
      {PoseConvention::kWorldToCamera, "w2c"}};
  if (given.size() < kMinCameras) return "";
  const std::optional<double> share = ShareAtOnePlace(PosesReadAs(read_as, given));
  if (!share.has_value() || *share >= kLessSuspicious) return "";
  const double convincing = *share < kSuspicious ? kConvincing : kMostConvincing;
  double best = 0;
  std::string remedy;
  for (const auto& [reading, name] : kReadings) {
    const double other = ShareAtOnePlace(PosesReadAs(reading, given)).value_or(0);
    if (other <= best || other < convincing) continue;
    best = other;
    const char* what = reading == PoseConvention::kOpenGl   ? "camera to world with OpenGL's axes"
                       : reading == PoseConvention::kOpenCv ? "camera to world with OpenCV's axes"
                                                            : "world to camera";
    remedy = absl::StrFormat("as %s, %.0f%% do: --poses %s reads them so", what, 100 * other, name);
  }
  const double transposed = ShareAtOnePlace(Changed(given, TransposedRotation)).value_or(0);
  if (transposed > best && transposed >= convincing) {
    remedy = absl::StrFormat("with their rotations transposed, %.0f%% do: check what wrote them",
                             100 * transposed);
  }
  if (remedy.empty()) return "";
  return absl::StrFormat(
      "the cameras look away from each other: only %.0f%% of them look at one place. If their "
      "matrices "
      "are read %s",
      100 * *share, remedy);
}

bool ReadPoses(PoseConvention convention, ListedViews* listed, Verdicts* verdicts) {
  if (listed->flavor == SceneFlavor::kColmap) {
    if (convention != PoseConvention::kOpenGl) {
      verdicts->Warn(
          {listed->source, "", "its format says what its poses are", "poses has no effect"});
    }
    return false;
  }
  std::vector<Pose> given;
  for (const ListedView& view : listed->views) given.push_back(view.pose);
  std::string warning = PoseConventionWarning(convention, given);
  const bool warns = !warning.empty();
  if (warns) verdicts->Warn({listed->source, "", std::move(warning), ""});
  const std::vector<Pose> poses = PosesReadAs(convention, given);
  for (size_t i = 0; i < poses.size(); ++i) listed->views[i].pose = poses[i];
  return warns;
}

}  // namespace nerf
