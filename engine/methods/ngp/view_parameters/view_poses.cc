#include "engine/methods/ngp/view_parameters/view_poses.h"

#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

constexpr size_t kWidth = 6;
constexpr double kRateHalvings = 4;

}  // namespace

float PoseRate(const TrainConfig& config, double fraction) {
  return Ngp(config).pose_rate * static_cast<float>(std::exp2(-kRateHalvings * fraction));
}

float FocalRate(const TrainConfig& config, double fraction) {
  return Ngp(config).focal_rate * static_cast<float>(std::exp2(-kRateHalvings * fraction));
}

ViewPoses::ViewPoses(const std::vector<Vec3>& positions, float length)
    : length_(length),
      positions_(positions),
      poses_("view.poses", {static_cast<uint32_t>(positions.size()), kWidth}),
      gradients_(poses_.size()),
      corrections_(positions.size()) {
  Vec3 sum;
  for (const Vec3& position : positions) sum = sum + position;
  const Vec3 mean = sum * (1 / static_cast<float>(std::max<size_t>(1, positions.size())));
  for (Vec3& position : positions_) position = (position - mean) * (1 / length);
  FindCorrections();
}

// Subtracts the turn W, shift t and scale k of all cameras that minimize the sum over views of
// |turn - W|^2 + |shift - (t + W x p + k p)|^2, p being the camera's position. As the positions sum
// to 0, W, t and k are found apart. Linear in W: corrections are small.
void ViewPoses::TakeOutCommonMotion() {
  Vec3 shift, moment, columns[3];
  float along = 0, squares = 1e-12f;
  for (size_t view = 0; view < positions_.size(); ++view) {
    const Vec3 position = positions_[view];
    const float* const pose = &poses_[kWidth * view];
    const Vec3 shift_of_view{pose[3], pose[4], pose[5]};
    shift = shift + shift_of_view * (1 / static_cast<float>(positions_.size()));
    moment = moment + Vec3{pose[0], pose[1], pose[2]} + Cross(position, shift_of_view);
    for (int axis = 0; axis < 3; ++axis) {
      columns[axis] = columns[axis] - position * position[axis];
      columns[axis][axis] += 1 + Dot(position, position);
    }
    along += Dot(shift_of_view, position);
    squares += Dot(position, position);
  }
  // By Cramer's rule.
  const Vec3 turn =
      Vec3{Dot(moment, Cross(columns[1], columns[2])), Dot(columns[0], Cross(moment, columns[2])),
           Dot(columns[0], Cross(columns[1], moment))} *
      (1 / Dot(columns[0], Cross(columns[1], columns[2])));
  for (size_t view = 0; view < positions_.size(); ++view) {
    const Vec3 moved = shift + Cross(turn, positions_[view]) + positions_[view] * (along / squares);
    float* const pose = &poses_[kWidth * view];
    for (int axis = 0; axis < 3; ++axis) {
      pose[axis] -= turn[axis];
      pose[3 + axis] -= moved[axis];
    }
  }
}

// Rotations by Rodrigues' formula.
void ViewPoses::FindCorrections() {
  for (size_t view = 0; view < corrections_.size(); ++view) {
    const float* const pose = &poses_[kWidth * view];
    const Vec3 turn{pose[0], pose[1], pose[2]};
    const float angle = Norm(turn);
    const float sine = angle > 1e-6f ? std::sin(angle) / angle : 1.0f;
    const float versine = angle > 1e-6f ? (1 - std::cos(angle)) / (angle * angle) : 0.5f;
    const Vec3 skew[3] = {{0, -turn.z, turn.y}, {turn.z, 0, -turn.x}, {-turn.y, turn.x, 0}};
    for (int row = 0; row < 3; ++row) {
      Vec3& out = corrections_[view].rows[row];
      for (int column = 0; column < 3; ++column) {
        // The square of the skew matrix is w w^T - |w|^2 I.
        const float square = turn[row] * turn[column] - (row == column ? angle * angle : 0.0f);
        out[column] = (row == column ? 1.0f : 0.0f) + sine * skew[row][column] + versine * square;
      }
    }
    corrections_[view].shift = Vec3{pose[3], pose[4], pose[5]} * length_;
  }
}

void ViewPoses::Apply(int view, Ray* ray) const {
  const Correction& correction = corrections_[view];
  ray->origin = ray->origin + correction.shift;
  ray->direction = {Dot(correction.rows[0], ray->direction),
                    Dot(correction.rows[1], ray->direction),
                    Dot(correction.rows[2], ray->direction)};
}

Mat34 ViewPoses::Corrected(int view, const Mat34& stated) const {
  if (empty()) return stated;
  Mat34 pose = stated;
  for (int column = 0; column < 4; ++column) {
    Ray ray;
    ray.origin = stated.Column(3);
    ray.direction = stated.Column(column);
    Apply(view, &ray);
    const Vec3 corrected = column < 3 ? ray.direction : ray.origin;
    for (int row = 0; row < 3; ++row) pose.m[row][column] = corrected[row];
  }
  return pose;
}

Vec3 ViewPoses::Uncorrected(int view, Vec3 direction) const {
  if (empty()) return direction;
  const Vec3(&rows)[3] = corrections_[view].rows;
  return rows[0] * direction.x + rows[1] * direction.y + rows[2] * direction.z;
}

void ViewPoses::Update(const kernels::AdamSettings& settings, std::span<const int32_t> views,
                       std::span<const Ray> rays, std::span<const RayGradient> gradients) {
  NERF_CHECK(views.size() == rays.size() && views.size() == gradients.size());
  if (empty()) return;
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  for (size_t r = 0; r < views.size(); ++r) {
    // A small turn w moves the direction by w x d.
    const Vec3 turn = Cross(rays[r].direction, gradients[r].direction);
    const Vec3 shift = gradients[r].origin * length_;
    float* const gradient = gradients_.data() + kWidth * static_cast<size_t>(views[r]);
    for (int axis = 0; axis < 3; ++axis) {
      gradient[axis] += turn[axis];
      gradient[3 + axis] += shift[axis];
    }
  }
  poses_.Update(settings, gradients_);
  TakeOutCommonMotion();
  FindCorrections();
}

void ViewPoses::Save(TensorFile* file) const {
  if (empty()) return;
  poses_.Save(file);
}

absl::Status ViewPoses::Load(const TensorFile& file) {
  if (empty()) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(poses_.Load(file));
  FindCorrections();
  return absl::OkStatus();
}

}  // namespace nerf
