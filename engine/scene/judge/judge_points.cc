#include "engine/scene/judge/judge_points.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "engine/scene/files/scene_files.h"

namespace nerf {
namespace {

constexpr size_t kMinSeen = 8;        // points of a picture; fewer say nothing
constexpr size_t kMinSeenOfAll = 64;  // of all pictures, to tell of which size they are
// Medians over the picture's diagonal. Of COLMAP's own models they are about 0.001.
constexpr double kOddError = 0.01, kAbsurdError = 0.1;
constexpr size_t kMaxNamed = 3;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The view's camera for the size that its file states, at the origin.
std::optional<Camera> StatedCamera(const Intrinsics& intrinsics) {
  if (!intrinsics.width || !intrinsics.height) return std::nullopt;
  Problems ignored;
  bool is_rescaled = false;
  std::optional<Camera> camera =
      ResolveCamera(intrinsics, static_cast<int>(*intrinsics.width),
                    static_cast<int>(*intrinsics.height), "", "", &is_rescaled, &ignored);
  if (camera) camera->camera_to_world = ToMat34(Pose());
  return camera;
}

// Whether positions in pictures are in pixels of the stated size: not beyond it, and not in a
// corner of it.
bool AreOfStatedSize(const std::vector<ListedView>& views) {
  constexpr double kMost = 1.1, kLeast = 0.6;
  double furthest = 0;
  size_t n_seen = 0;
  for (const ListedView& view : views) {
    if (!view.intrinsics.width || !view.intrinsics.height) continue;
    for (const PointInPicture& point : view.seen_points) {
      const double at =
          std::max(point.x / *view.intrinsics.width, point.y / *view.intrinsics.height);
      if (!(at <= kMost)) return false;
      furthest = std::max(furthest, at);
      ++n_seen;
    }
  }
  return n_seen < kMinSeenOfAll || furthest >= kLeast;
}

// The angle between where the picture shows the point and where it lies, in radians.
double AngleTo(const PointInPicture& point, const Pose& pose, const Camera& camera) {
  double offset[3], in_camera[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) offset[i] = point.position[i] - pose.m[i][3];
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) in_camera[i] += pose.m[j][i] * offset[j];
  }
  const Vec3 shown = CameraRay(camera, point.x, point.y).direction;
  const double dot = shown.x * in_camera[0] + shown.y * in_camera[1] + shown.z * in_camera[2];
  const double across[3] = {shown.y * in_camera[2] - shown.z * in_camera[1],
                            shown.z * in_camera[0] - shown.x * in_camera[2],
                            shown.x * in_camera[1] - shown.y * in_camera[0]};
  return std::atan2(std::hypot(across[0], across[1], across[2]), dot);
}

std::optional<PointError> ErrorOf(const ListedView& view) {
  if (view.seen_points.size() < kMinSeen) return std::nullopt;
  const std::optional<Camera> camera = StatedCamera(view.intrinsics);
  if (!camera) return std::nullopt;
  std::vector<double> angles;
  for (const PointInPicture& point : view.seen_points) {
    const double angle = AngleTo(point, view.pose, *camera);
    if (std::isfinite(angle)) angles.push_back(angle);
  }
  if (angles.size() < kMinSeen) return std::nullopt;
  const double focal = camera->lens == LensModel::kEquirectangular
                           ? camera->width / (2 * 3.14159265)
                           : 0.5 * (camera->fl_x + camera->fl_y);
  const double pixels = focal * Median(std::move(angles));
  return PointError{pixels, pixels / std::hypot(camera->width, camera->height)};
}

}  // namespace

std::vector<std::optional<PointError>> PointErrors(const std::vector<ListedView>& views) {
  std::vector<std::optional<PointError>> errors(views.size());
  if (!AreOfStatedSize(views)) return errors;
  std::transform(views.begin(), views.end(), errors.begin(), ErrorOf);
  return errors;
}

bool AgreesWithPoints(const PointError& error) { return error.of_diagonal <= kOddError; }

std::vector<bool> JudgePoints(const ListedViews& listed,
                              const std::vector<std::optional<PointError>>& errors,
                              Verdicts* verdicts) {
  std::vector<bool> contradicts(errors.size(), false);
  std::vector<double> of_diagonal, pixels;
  std::vector<std::pair<double, size_t>> odd;  // the worst first, in pixels
  size_t n_absurd = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    of_diagonal.push_back(errors[i]->of_diagonal);
    pixels.push_back(errors[i]->median_pixels);
    if (errors[i]->of_diagonal > kOddError) odd.emplace_back(errors[i]->median_pixels, i);
    n_absurd += errors[i]->of_diagonal > kAbsurdError;
  }
  if (odd.empty()) return contradicts;
  std::stable_sort(odd.begin(), odd.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string worst;
  for (size_t i = 0; i < std::min(kMaxNamed, odd.size()); ++i) {
    absl::StrAppendFormat(&worst, "%s%s by %.0f pixels", i == 0 ? "" : ", ",
                          Printable(listed.views[odd[i].second].file), odd[i].first);
  }
  const ListedView& first = listed.views[odd[0].second];
  const std::string& file = first.PoseFile();
  const double overall = Median(of_diagonal);
  // A few views with points say nothing of the others.
  if (overall > kAbsurdError && 4 * of_diagonal.size() >= errors.size()) {
    verdicts->Refuse(
        {file, "",
         absl::StrFormat("the cameras contradict the model's own points, which lie %.0f pixels "
                         "(median) from where the pictures show them (%s)",
                         Median(pixels), worst),
         "cameras, images and points3D are not of one model, or the poses were changed; export "
         "the model again"});
    return contradicts;
  }
  if (overall > kOddError) {
    verdicts->Warn({file, "",
                    absl::StrFormat("the cameras are %.0f pixels (median) off the model's own "
                                    "points (%s)",
                                    Median(pixels), worst),
                    "check that the intrinsics belong to these poses, or let COLMAP's "
                    "bundle_adjuster refine the model"});
    return contradicts;
  }
  for (size_t i = 0; i < errors.size(); ++i)
    contradicts[i] = errors[i] && errors[i]->of_diagonal > kAbsurdError;
  verdicts->Warn({file, first.field,
                  absl::StrCat(Counted(odd.size(), "camera"), odd.size() == 1 ? " is" : " are",
                               " off the points that the pictures show (", worst, ")",
                               n_absurd == 0 ? "" : absl::StrCat("; ", n_absurd, " left out")),
                  "remove these images from the model, or register them again"});
  return contradicts;
}

}  // namespace nerf
