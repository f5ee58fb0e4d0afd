#include "engine/methods/ngp/view_parameters/view_focals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/base/check.h"

namespace nerf {
namespace {

constexpr const char* kName = "view.log_focal_scales";

// A vector in the axes of the camera, whose rotation has orthonormal columns, and back.
Vec3 ToCamera(const Mat34& camera_to_world, Vec3 v) {
  return {Dot(camera_to_world.Column(0), v), Dot(camera_to_world.Column(1), v),
          Dot(camera_to_world.Column(2), v)};
}

// In camera axes, of lenses with an image plane: (u, -v, -1) moves by (du, -dv, 0), of which the
// part across the unit vector counts.
Vec3 PlaneSlope(const LensDistortion& distortion, Vec3 local) {
  if (!(local.z < -1e-4f)) return {};
  const double u = double{1} * local.x / -local.z, v = double{-1} * local.y / -local.z;
  const DistortedPoint at = DistortWithJacobian(distortion, u, v);
  const double determinant = at.du_du * at.dv_dv - at.du_dv * at.dv_du;
  if (!(determinant > 1e-9)) return {};
  // Distorted positions are (x - cx) / f, so they shrink as f grows.
  const double du = -(at.dv_dv * at.u - at.du_dv * at.v) / determinant;
  const double dv = -(at.du_du * at.v - at.dv_du * at.u) / determinant;
  const auto length = static_cast<float>(1 / std::sqrt(1 + u * u + v * v));
  const Vec3 moved = Vec3{static_cast<float>(du), static_cast<float>(-dv), 0} * length;
  return moved - local * Dot(local, moved);
}

// In camera axes: the angle from the axis changes.
Vec3 FisheyeSlope(const LensDistortion& distortion, Vec3 local) {
  const double across = std::sqrt(double{local.x} * local.x + double{local.y} * local.y);
  if (across < 1e-9) return {};
  const double theta = std::atan2(across, -double{local.z});
  const FisheyeRadius at = FisheyeRadiusAt(distortion, theta);
  if (!(at.slope > 1e-6)) return {};
  const double turn = -at.radius / at.slope;
  const double outwards = turn * -local.z / across;
  return {static_cast<float>(outwards * local.x), static_cast<float>(outwards * local.y),
          static_cast<float>(turn * across)};
}

// In camera axes, of a thin prism: the point whose distance from the center is the angle moves.
Vec3 ThinPrismSlope(const LensDistortion& distortion, Vec3 local) {
  constexpr double kStep = 1e-5;  // of a difference in double precision
  const double across = std::sqrt(double{local.x} * local.x + double{local.y} * local.y);
  if (across < 1e-9) return {};
  const double theta = std::atan2(across, -double{local.z});
  const double u = theta * local.x / across, v = -theta * local.y / across;
  const DistortedPoint at = ThinPrismWithJacobian(distortion, u, v);
  const double determinant = at.du_du * at.dv_dv - at.du_dv * at.dv_du;
  if (!(determinant > 1e-9)) return {};
  const double du = -(at.dv_dv * at.u - at.du_dv * at.v) / determinant;
  const double dv = -(at.du_du * at.v - at.dv_du * at.u) / determinant;
  const auto direction = [&](double step) {
    const double x = u + step * du, y = v + step * dv, angle = std::hypot(x, y);
    const double share = angle < 1e-12 ? 1 : std::sin(angle) / angle;
    return std::array<double, 3>{x * share, -y * share, -std::cos(angle)};
  };
  const auto more = direction(kStep), less = direction(-kStep);
  Vec3 slope;
  for (int axis = 0; axis < 3; ++axis)
    slope[axis] = static_cast<float>((more[axis] - less[axis]) / (2 * kStep));
  return slope;
}

// In camera axes, of COLMAP's FOV.
Vec3 FieldOfViewSlope(const LensDistortion& distortion, Vec3 local) {
  if (!(local.z < -1e-4f)) return {};
  const double omega = distortion.k1, widest = 2 * std::tan(omega / 2);
  const double u = double{1} * local.x / -local.z, v = double{-1} * local.y / -local.z;
  const double radius = std::hypot(u, v);
  if (std::abs(omega) < 1e-6 || radius < 1e-9) return PlaneSlope({}, local);
  const double angle = std::atan(radius * widest);  // omega times the distance from the center
  const double outwards = -angle / (std::pow(std::cos(angle), 2) * widest * radius);
  const auto length = static_cast<float>(1 / std::sqrt(1 + radius * radius));
  const Vec3 moved =
      Vec3{static_cast<float>(u * outwards), static_cast<float>(-v * outwards), 0} * length;
  return moved - local * Dot(local, moved);
}

}  // namespace

Vec3 FocalSlope(const LensCamera& camera, Vec3 direction) {
  const Vec3 local = ToCamera(camera.camera_to_world, direction);
  Vec3 slope;
  switch (camera.lens) {
    case LensModel::kPinhole:
      slope = PlaneSlope({}, local);
      break;
    case LensModel::kOpenCv:
      slope = PlaneSlope(camera.distortion, local);
      break;
    case LensModel::kFisheye:
      slope = FisheyeSlope(camera.distortion, local);
      break;
    case LensModel::kThinPrismFisheye:
      slope = ThinPrismSlope(camera.distortion, local);
      break;
    case LensModel::kFieldOfView:
      slope = FieldOfViewSlope(camera.distortion, local);
      break;
    case LensModel::kEquirectangular:
      return {};
  }
  return camera.camera_to_world.ApplyToDirection(slope);
}

ViewFocals::ViewFocals(std::span<const View> views) {
  for (const View& view : views) {
    const LensScale lens = LensScaleOf(view.camera);
    const auto found = std::find_if(lenses_.begin(), lenses_.end(), [&](const LensScale& known) {
      return IsSameLens(known, lens);
    });
    lens_of_.push_back(static_cast<int>(found - lenses_.begin()));
    if (found == lenses_.end()) lenses_.push_back(lens);
    focals_.push_back(view.camera.fl_x);
    focals_.push_back(view.camera.fl_y);
  }
  log_scales_ = ViewValues(kName, {static_cast<uint32_t>(lenses_.size())});
}

void ViewFocals::Apply(std::vector<LensCamera>* cameras) const {
  if (empty()) return;
  NERF_CHECK(cameras->size() == lens_of_.size());
  for (size_t view = 0; view < lens_of_.size(); ++view) {
    const float scale = std::exp(log_scales_[lens_of_[view]]);
    (*cameras)[view].fl_x = focals_[2 * view] * scale;
    (*cameras)[view].fl_y = focals_[2 * view + 1] * scale;
  }
}

void ViewFocals::Update(const kernels::AdamSettings& settings, const RayBatch& batch,
                        std::span<const LensCamera> cameras, const ViewPoses& poses,
                        std::span<const RayGradient> gradients) {
  if (empty()) return;
  NERF_CHECK(batch.views.size() == gradients.size() && cameras.size() == lens_of_.size());
  std::vector<float> sums(lenses_.size());
  for (size_t r = 0; r < gradients.size(); ++r) {
    const bool has_depth = !batch.depths.empty() && batch.depths[r] > 0;
    if (has_depth || gradients[r].direction == Vec3()) continue;
    const int32_t view = batch.views[r];
    const Vec3 direction = poses.Uncorrected(view, batch.rays[r].direction);
    const Vec3 gradient = poses.Uncorrected(view, gradients[r].direction);
    sums[lens_of_[view]] += Dot(gradient, FocalSlope(cameras[view], direction));
  }
  log_scales_.Update(settings, sums);
}

std::vector<LensScale> ViewFocals::Scales() const {
  std::vector<LensScale> scales = lenses_;
  for (size_t i = 0; i < scales.size(); ++i) scales[i].scale = std::exp(log_scales_[i]);
  return scales;
}

void ViewFocals::Save(TensorFile* file) const {
  if (empty()) return;
  log_scales_.Save(file);
  SaveLensScales(Scales(), file);
}

absl::Status ViewFocals::Load(const TensorFile& file) {
  if (empty()) return absl::OkStatus();
  return log_scales_.Load(file);
}

}  // namespace nerf
