#include "engine/export/files/export_axes.h"

#include <algorithm>

namespace nerf {
namespace {

// A row for each axis of the result: the axis that it is, 1 to 3, below 0 the opposite.
using AxisOrder = int[3];

constexpr AxisOrder kSame = {1, 2, 3};
constexpr AxisOrder kColmapToZUp = {1, 3, -2};  // ColmapWorldToZUp
// From z up and y away from the viewer.
constexpr AxisOrder kZUpToGltf = {1, 3, -2};
constexpr AxisOrder kZUpToUnity = {1, 3, 2};
constexpr AxisOrder kZUpToUnreal = {1, -2, 3};
constexpr AxisOrder kZUpToOpenCv = {1, -3, 2};

void Turn(const AxisOrder& order, double (&matrix)[3][3]) {
  double turned[3][3];
  for (int row = 0; row < 3; ++row) {
    const int axis = std::abs(order[row]) - 1;
    for (int column = 0; column < 3; ++column) {
      turned[row][column] = order[row] < 0 ? -matrix[axis][column] : matrix[axis][column];
    }
  }
  std::copy(&turned[0][0], &turned[0][0] + 9, &matrix[0][0]);
}

}  // namespace

ExportAxes::ExportAxes(AxesName name, bool is_y_up, const SceneGeometry& geometry)
    : to_own_(Inverse(FromSceneFrame(geometry.frame))), own_origin_(geometry.frame.origin) {
  if (name == AxesName::kDataset) {
    words_ = "the data set's own";
    return;
  }
  // Other formats than COLMAP's have z up.
  Turn(geometry.flavor == SceneFlavor::kColmap ? kColmapToZUp : kSame, turn_);
  if (name == AxesName::kOpenCv) {
    Turn(kZUpToOpenCv, turn_);
    words_ = "y down, right-handed";
  } else if (is_y_up) {
    Turn(kZUpToGltf, turn_);
    words_ = "y up, right-handed, as this format has them: programs turn them on import";
  } else if (name == AxesName::kBlender) {
    words_ = "z up, right-handed";
  } else {
    is_mirrored_ = true;
    Turn(name == AxesName::kUnity ? kZUpToUnity : kZUpToUnreal, turn_);
    words_ = name == AxesName::kUnity ? "y up, left-handed" : "z up, left-handed";
  }
}

Vec3d ExportAxes::Turned(const Vec3d& own) const {
  Vec3d turned;
  for (int row = 0; row < 3; ++row) {
    turned[row] = turn_[row][0] * own[0] + turn_[row][1] * own[1] + turn_[row][2] * own[2];
  }
  return turned;
}

Vec3 ExportAxes::Point(Vec3 training) const {
  const Vec3d p = Turned(to_own_.ApplyToPoint({training.x, training.y, training.z}));
  return {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2])};
}

Vec3d ExportAxes::PointFromZero(Vec3 training) const {
  const Vec3 p = Point(training);
  const Vec3d point = {p.x, p.y, p.z};
  return has_origin() ? Sum(point, origin()) : point;
}

Vec3 ExportAxes::Direction(Vec3 training) const {
  Vec3d own;
  for (int row = 0; row < 3; ++row) {
    const double(&r)[3] = to_own_.rotation[row];
    own[row] = r[0] * training.x + r[1] * training.y + r[2] * training.z;
  }
  const Vec3d d = Turned(own);
  return Normalized({static_cast<float>(d[0]), static_cast<float>(d[1]), static_cast<float>(d[2])});
}

Pose ExportAxes::CameraPose(const Mat34& camera_to_world) const {
  const Pose own = to_own_.ApplyToPose(ToPose(camera_to_world));
  Pose turned;
  for (int column = 0; column < 4; ++column) {
    const Vec3d axis = Turned({own.m[0][column], own.m[1][column], own.m[2][column]});
    for (int row = 0; row < 3; ++row) turned.m[row][column] = axis[row];
  }
  if (has_origin()) turned.set_position(Sum(turned.position(), origin()));
  return turned;
}

}  // namespace nerf
