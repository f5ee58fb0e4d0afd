#include "engine/scene/listed_views.h"

#include <cmath>
#include <numbers>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/scene/panorama.h"

namespace nerf {
namespace {

constexpr double kMaxStretchDifference = 0.01;
// Focal length over picture side: fields of view of 169 and of 0.06 degrees.
constexpr double kMinRelativeFocal = 0.05;
constexpr double kMaxRelativeFocal = 1000;

bool IsDistorted(const Intrinsics& i) {
  return i.k1 != 0 || i.k2 != 0 || i.k3 != 0 || i.p1 != 0 || i.p2 != 0 || i.k4 != 0 || i.k5 != 0 ||
         i.k6 != 0;
}

}  // namespace

bool IsSameView(const ListedView& a, const ListedView& b) {
  const auto without_fields = [](Intrinsics intrinsics) {
    for (int axis = 0; axis < 2; ++axis) {
      intrinsics.focal_field[axis].clear();
      intrinsics.center_field[axis].clear();
    }
    intrinsics.size_field.clear();
    intrinsics.distortion_field.clear();
    return intrinsics;
  };
  return a.file == b.file && a.mask_file == b.mask_file && a.depth.file == b.depth.file &&
         a.pose == b.pose && a.time == b.time &&
         without_fields(a.intrinsics) == without_fields(b.intrinsics);
}

std::string CameraModelName(const Intrinsics& intrinsics) {
  // is_fisheye and equirectangular overrule a camera_model.
  if (intrinsics.lens == LensModel::kEquirectangular) return "EQUIRECTANGULAR";
  const bool is_fisheye = intrinsics.lens == LensModel::kFisheye;
  if (is_fisheye && !absl::StrContains(intrinsics.model, "FISHEYE")) return "OPENCV_FISHEYE";
  if (!intrinsics.model.empty()) return intrinsics.model;
  return IsDistorted(intrinsics) ? "OPENCV" : "PINHOLE";
}

std::optional<Camera> ResolveCamera(const Intrinsics& intrinsics, int image_width, int image_height,
                                    std::string_view file, std::string_view image, bool* rescaled,
                                    Problems* problems) {
  *rescaled = false;
  if (intrinsics.is_broken) return std::nullopt;
  if (intrinsics.lens == LensModel::kEquirectangular)
    return EquirectangularCamera(image_width, image_height);
  const double size[2] = {intrinsics.width.value_or(image_width),
                          intrinsics.height.value_or(image_height)};
  double focal[2] = {0, 0};
  for (int axis = 0; axis < 2; ++axis) {
    if (intrinsics.focal[axis]) {
      focal[axis] = *intrinsics.focal[axis];
    } else if (intrinsics.angle[axis]) {
      focal[axis] = 0.5 * size[axis] / std::tan(0.5 * *intrinsics.angle[axis]);
    }
  }
  if (focal[0] == 0) focal[0] = focal[1];
  if (focal[1] == 0) focal[1] = focal[0];
  if (focal[0] == 0) {
    problems->Add(
        file, "camera_angle_x",
        "intrinsics are missing: give camera_angle_x, or fl_x, fl_y, cx, cy, w, h, in the "
        "file or in every frame");
    return std::nullopt;
  }
  for (int axis = 0; axis < 2; ++axis) {
    const double relative = focal[axis] / size[axis];
    if (relative >= kMinRelativeFocal && relative <= kMaxRelativeFocal) continue;
    const std::string& field = intrinsics.focal_field[axis].empty()
                                   ? intrinsics.focal_field[1 - axis]
                                   : intrinsics.focal_field[axis];
    problems->Add(file, field,
                  absl::StrFormat("focal length of %g pixels is absurd for a picture of %g x %g",
                                  focal[axis], size[0], size[1]));
    return std::nullopt;
  }
  const double center[2] = {intrinsics.cx.value_or(0.5 * size[0]),
                            intrinsics.cy.value_or(0.5 * size[1])};
  for (int axis = 0; axis < 2; ++axis) {
    if (center[axis] < -size[axis] || center[axis] > 2 * size[axis]) {
      problems->Add(file, intrinsics.center_field[axis],
                    absl::StrFormat("principal point %g lies far outside a picture of %g x %g",
                                    center[axis], size[0], size[1]));
      return std::nullopt;
    }
  }

  const double stretch[2] = {image_width / size[0], image_height / size[1]};
  if (std::abs(stretch[0] / stretch[1] - 1) > kMaxStretchDifference) {
    problems->Add(
        file, intrinsics.size_field,
        absl::StrFormat(
            "%s is %d x %d but the file says %g x %g: another aspect ratio, so the "
            "intrinsics cannot be rescaled: use the pictures that the poses were made for",
            std::string(image), image_width, image_height, size[0], size[1]));
    return std::nullopt;
  }
  *rescaled = std::abs(image_width - size[0]) >= 1 || std::abs(image_height - size[1]) >= 1;
  Camera camera;
  camera.width = image_width;
  camera.height = image_height;
  camera.fl_x = static_cast<float>(focal[0] * stretch[0]);
  camera.fl_y = static_cast<float>(focal[1] * stretch[1]);
  camera.cx = static_cast<float>(center[0] * stretch[0]);
  camera.cy = static_cast<float>(center[1] * stretch[1]);
  camera.k1 = static_cast<float>(intrinsics.k1);
  camera.k2 = static_cast<float>(intrinsics.k2);
  camera.k3 = static_cast<float>(intrinsics.k3);
  camera.p1 = static_cast<float>(intrinsics.p1);
  camera.p2 = static_cast<float>(intrinsics.p2);
  camera.k4 = static_cast<float>(intrinsics.k4);
  camera.k5 = static_cast<float>(intrinsics.k5);
  camera.k6 = static_cast<float>(intrinsics.k6);
  camera.lens = intrinsics.lens;
  if (intrinsics.lens == LensModel::kPinhole && IsDistorted(intrinsics))
    camera.lens = LensModel::kOpenCv;
  return camera;
}

}  // namespace nerf
