#include "engine/scene/judge/judge_lenses.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "engine/scene/judge/upright.h"

namespace nerf {
namespace {

// Focal length over the longer side: a perspective of more than 127 degrees, or of less than two.
constexpr double kMinFocal = 0.25, kMaxFocal = 30;
constexpr double kMaxFocalRatio = 1.5;  // of the two axes
constexpr double kMaxOffMiddle = 0.3;   // of the center, in sides of the picture
constexpr double kCorner = 0.1;         // of a side: a center so close to a corner is at it
constexpr double kFilmWidth = 36;       // millimeters

std::string FirstOf(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

std::string CenterRemedy(const Camera& camera) {
  const double x = camera.cx / camera.width, y = camera.cy / camera.height;
  if (camera.cx > 0 && camera.cx <= 1 && camera.cy > 0 && camera.cy <= 1) {
    return absl::StrFormat("it is likely a share of the sides; in pixels it is %.5g, %.5g",
                           double{camera.cx} * camera.width, double{camera.cy} * camera.height);
  }
  if (std::abs(x) < kCorner && std::abs(y) < kCorner) {
    return absl::StrFormat(
        "it is likely an offset from the middle; from the corner it is %.5g, %.5g",
        camera.cx + 0.5 * camera.width, camera.cy + 0.5 * camera.height);
  }
  if (std::abs(x - 1) < kCorner && std::abs(y - 1) < kCorner) {
    return "the intrinsics are likely of pictures of twice the size; state their size as w and h";
  }
  return "unless the picture was cut, it is of another size or convention; the middle of the "
         "picture is usual";
}

}  // namespace

void LensJudge::Found(const std::string& kind, Verdict verdict) {
  Fault& fault = faults_[kind];
  if (fault.n_views++ == 0) fault.first = std::move(verdict);
}

bool LensJudge::IsTurned(const ListedView& view, const ImageHeader& header, bool is_upright) {
  if (!FitsSideways(view.intrinsics, header)) return false;
  if (IsSideways(OrientationOf(folder_, view.file))) {
    if ((is_upright ? n_by_flag_ : n_by_exif_)++ == 0) first_by_exif_ = view.file;
    return true;
  }
  if (n_by_hand_++ == 0) {
    first_by_hand_ = view.file;
    list_file_ = view.list_file;
    size_field_ = view.intrinsics.size_field;
    shape_ = absl::StrFormat("%d x %d where the file says %g x %g", header.width, header.height,
                             *view.intrinsics.width, *view.intrinsics.height);
  }
  return true;
}

void LensJudge::Add(const ListedView& view, const Camera& camera) {
  const Intrinsics& from = view.intrinsics;
  if (!CanUndistort(camera)) {
    Found("folded", {view.list_file, from.distortion_field,
                     absl::StrCat("the distortion cannot be undone up to the corners of ",
                                  Printable(view.file)),
                     "check the camera model, and the signs and sizes of the distortion"});
  }
  if (camera.lens == LensModel::kEquirectangular) return;
  const double x = camera.cx / camera.width, y = camera.cy / camera.height;
  if (std::abs(x - 0.5) > kMaxOffMiddle || std::abs(y - 0.5) > kMaxOffMiddle) {
    const bool is_x = std::abs(x - 0.5) > kMaxOffMiddle;
    Found("center",
          {view.list_file, from.center_field[is_x ? 0 : 1],
           absl::StrFormat("the center %.5g, %.5g is far from the middle of %s, of %d x "
                           "%d pixels",
                           camera.cx, camera.cy, Printable(view.file), camera.width, camera.height),
           CenterRemedy(camera)});
  }
  if (!IsOnPlane(camera.lens)) return;
  const bool is_wide = camera.width >= camera.height;
  const std::string field =
      FirstOf(from.focal_field[is_wide ? 0 : 1], from.focal_field[is_wide ? 1 : 0]);
  const double side = is_wide ? camera.width : camera.height;
  const double focal = is_wide ? camera.fl_x : camera.fl_y;
  const double degrees = 2 * std::atan(0.5 * side / focal) * 180 / std::numbers::pi;
  if (focal / side < kMinFocal) {
    Found("wide",
          {view.list_file, field,
           absl::StrFormat("a focal length of %.5g gives a perspective picture of %d x %d "
                           "pixels (%s) a field of view of %.0f degrees",
                           focal, camera.width, camera.height, Printable(view.file), degrees),
           absl::StrFormat("it is likely in millimeters; in pixels, %.4g mm of 35 mm film "
                           "are %.4g",
                           focal, focal * side / kFilmWidth)});
  } else if (focal / side > kMaxFocal) {
    Found("narrow",
          {view.list_file, field,
           absl::StrFormat("a focal length of %.5g gives a picture of %d x %d pixels "
                           "(%s) a field of view of %.2g degrees",
                           focal, camera.width, camera.height, Printable(view.file), degrees),
           "check that it is in pixels of this size"});
  }
  const double ratio = camera.fl_x / camera.fl_y;
  if (std::max(ratio, 1 / ratio) > kMaxFocalRatio) {
    Found("ratio", {view.list_file, field,
                    absl::StrFormat("focal lengths %.5g and %.5g differ in the two axes of %s",
                                    camera.fl_x, camera.fl_y, Printable(view.file)),
                    "they are about equal unless pixels are not square; check both, and the size "
                    "that they are for"});
  }
}

void LensJudge::Say() {
  if (n_by_exif_ > 0) {
    verdicts_.Refuse({first_by_exif_, "EXIF orientation",
                      absl::StrCat(n_by_exif_,
                                   " pictures lie on their side, and the intrinsics are for the "
                                   "upright ones"),
                      "--apply-exif (setting apply_exif=1) turns them by their EXIF orientation"});
  }
  if (n_by_flag_ > 0) {
    verdicts_.Refuse({first_by_exif_, "EXIF orientation",
                      absl::StrCat(Counted(n_by_flag_, "picture"),
                                   " turned upright by --apply-exif, and the intrinsics are for "
                                   "the pictures as they are stored"),
                      "leave out --apply-exif (setting apply_exif=0)"});
  }
  if (n_by_hand_ > 0) {
    verdicts_.Refuse(
        {list_file_, size_field_,
         absl::StrCat("the sides of ", Counted(n_by_hand_, "picture"), " are swapped, such as ",
                      Printable(first_by_hand_), " (", shape_,
                      "). EXIF does not say so: a person or a program turned them"),
         "turn them back (jpegtran -rotate 90 or 270), or take the pictures as the camera wrote "
         "them"});
  }
  for (auto& [kind, fault] : faults_) {
    if (fault.n_views > 1) {
      absl::StrAppend(&fault.first.cause, "; so in ", fault.n_views, " pictures");
    }
    verdicts_.Warn(fault.first);
  }
}

}  // namespace nerf
