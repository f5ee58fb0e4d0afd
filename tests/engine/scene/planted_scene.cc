#include "tests/engine/scene/planted_scene.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/engine/scene/looking_at.h"

namespace nerf {
namespace {

constexpr int kShots = 12, kPoints = 40;

Vec3d PointAt(int i) {
  return {0.6 * std::sin(1.7 * i), 0.6 * std::cos(2.3 * i), 0.5 * std::sin(0.9 * i)};
}

// Rotation as a quaternion w, x, y, z of a matrix.
void ToQuaternion(const double r[3][3], double q[4]) {
  // The largest component first, so that nothing small is divided by.
  const double squares[4] = {1 + r[0][0] + r[1][1] + r[2][2], 1 + r[0][0] - r[1][1] - r[2][2],
                             1 - r[0][0] + r[1][1] - r[2][2], 1 - r[0][0] - r[1][1] + r[2][2]};
  int k = 0;
  for (int i = 1; i < 4; ++i) k = squares[i] > squares[k] ? i : k;
  const double s = 2 * std::sqrt(squares[k]);
  const double w = r[2][1] - r[1][2], x = r[0][2] - r[2][0], y = r[1][0] - r[0][1];
  const double xy = r[0][1] + r[1][0], xz = r[0][2] + r[2][0], yz = r[1][2] + r[2][1];
  const double rows[4][4] = {{0, w, x, y}, {w, 0, xy, xz}, {x, xy, 0, yz}, {y, xz, yz, 0}};
  for (int i = 0; i < 4; ++i) q[i] = i == k ? s / 4 : rows[k][i] / s;
}

// Rotation and translation from world to a camera of COLMAP's axes.
void WorldToColmap(const Pose& pose, double rotation[3][3], double translation[3]) {
  for (int i = 0; i < 3; ++i) {
    const double sign = i == 0 ? 1 : -1;
    translation[i] = 0;
    for (int j = 0; j < 3; ++j) {
      rotation[i][j] = sign * pose.m[j][i];
      translation[i] -= rotation[i][j] * pose.m[j][3];
    }
  }
}

std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.17g", value) : std::string("NaN");
}

}  // namespace

PlantedScene::PlantedScene() {
  for (int i = 0; i < kShots; ++i) {
    const double angle = 2 * std::numbers::pi * i / kShots;
    const std::string name = absl::StrFormat("shot_%02d.png", i);
    shots.push_back({name, name,
                     LookingAt({4 * std::cos(angle), 4 * std::sin(angle), 1 + 0.1 * i}, {0, 0, 0}),
                     ""});
    true_poses_.push_back(shots.back().pose);
  }
}

void PlantedScene::Write(const TempFolder& folder, PlantedForm form) const {
  std::string frames, images, cameras, points;
  for (size_t i = 0; i < shots.size(); ++i) {
    const Shot& shot = shots[i];
    folder.Write("images/" + shot.name, MakePng(picture_width, picture_height));
    std::string rows;
    Pose pose = shot.pose;
    pose.set_position(Sum(pose.position(), shift));
    for (const auto& row : pose.m) {
      absl::StrAppend(&rows, "[", Number(row[0]), ",", Number(row[1]), ",", Number(row[2]), ",",
                      Number(row[3]), "],");
    }
    absl::StrAppend(&frames, i == 0 ? "" : ",\n", "{\"file_path\":\"images/", shot.listed,
                    "\",\"transform_matrix\":[", rows, "[0,0,0,1]]", shot.more, "}");
    double rotation[3][3], t[3], q[4];
    WorldToColmap(pose, rotation, t);
    ToQuaternion(rotation, q);
    absl::StrAppendFormat(&images, "%d %s %s %s %s %s %s %s 1 %s\n", i + 1, Number(q[0]),
                          Number(q[1]), Number(q[2]), Number(q[3]), Number(t[0]), Number(t[1]),
                          Number(t[2]), shot.listed);
    // What the true camera shows, of the undistorted size of the pictures.
    WorldToColmap(true_poses_[i % true_poses_.size()], rotation, t);
    for (int p = 0; has_points && p < kPoints; ++p) {
      double in[3];
      for (int axis = 0; axis < 3; ++axis) {
        in[axis] = t[axis];
        for (int j = 0; j < 3; ++j) in[axis] += rotation[axis][j] * PointAt(p)[j];
      }
      absl::StrAppendFormat(&images, "%s%.6f %.6f %d", p == 0 ? "" : " ", 44 * in[0] / in[2] + 20,
                            44 * in[1] / in[2] + 15, p + 1);
    }
    images += "\n";
  }
  for (int p = 0; has_points && p < kPoints; ++p) {
    const Vec3d at = Sum(PointAt(p), shift);
    absl::StrAppendFormat(&points, "%d %s %s %s 9 9 9 0.5", p + 1, Number(at[0]), Number(at[1]),
                          Number(at[2]));
    for (size_t i = 0; i < shots.size(); ++i) absl::StrAppendFormat(&points, " %d %d", i + 1, p);
    points += "\n";
  }
  if (form == PlantedForm::kTransforms) {
    const std::string size =
        has_size ? absl::StrCat("\"w\":", width, ",\"h\":", height, ",") : std::string();
    folder.Write(list_name,
                 absl::StrCat("{\"camera_model\":\"OPENCV\",", size, "\"fl_x\":", Number(focal[0]),
                              ",\"fl_y\":", Number(focal[1]), ",\"cx\":", Number(center[0]),
                              ",\"cy\":", Number(center[1]), ",\"k1\":", Number(k1),
                              ",\n\"frames\":[", frames, "]}"));
  } else {
    const std::string in = list_name == "transforms.json" ? "sparse/0" : list_name;
    folder.Write(
        in + "/cameras.txt",
        absl::StrCat("1 OPENCV ", width, " ", height, " ", Number(focal[0]), " ", Number(focal[1]),
                     " ", Number(center[0]), " ", Number(center[1]), " ", Number(k1), " 0 0 0\n"));
    folder.Write(in + "/images.txt", images);
    if (has_points) folder.Write(in + "/points3D.txt", points);
  }
  for (const auto& [name, bytes] : files) folder.Write(name, bytes);
}

}  // namespace nerf
