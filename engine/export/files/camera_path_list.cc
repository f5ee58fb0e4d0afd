#include "engine/export/files/camera_path_list.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Json = nlohmann::ordered_json;

// From top to bottom, degrees.
double FieldOfView(const Camera& camera) {
  return 2 * std::atan(0.5 * camera.height / camera.fl_y) * 180 / std::numbers::pi;
}

// Quaternion x, y, z, w of a camera's axes with y down and z forward. Source: Shepperd 1978.
std::array<double, 4> QuaternionYDown(const Mat34& pose) {
  double r[3][3];
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      r[row][column] = (column == 0 ? 1.0 : -1.0) * pose.m[row][column];
    }
  }
  const double trace = r[0][0] + r[1][1] + r[2][2];
  std::array<double, 4> q;
  // The largest of the four is found first, so that nothing small is divided by.
  int largest = 3;
  double most = trace;
  for (int i = 0; i < 3; ++i) {
    if (r[i][i] > most) most = r[i][i], largest = i;
  }
  if (largest == 3) {
    q = {r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1], 1 + trace};
  } else {
    const int i = largest, j = (i + 1) % 3, k = (i + 2) % 3;
    q[i] = 1 + r[i][i] - r[j][j] - r[k][k];
    q[j] = r[j][i] + r[i][j];
    q[k] = r[k][i] + r[i][k];
    q[3] = r[k][j] - r[j][k];
  }
  const double length = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  for (double& number : q) number /= length;
  return q;
}

Json NerfstudioPath(std::span<const Camera> cameras, double seconds) {
  const Camera& first = cameras.front();
  Json path = Json::array();
  for (const Camera& camera : cameras) {
    Json matrix = Json::array();
    for (const auto& row : camera.camera_to_world.m) {
      for (const float number : row) matrix.push_back(number);
    }
    for (const int number : {0, 0, 0, 1}) matrix.push_back(number);
    path.push_back({{"camera_to_world", matrix},
                    {"fov", FieldOfView(camera)},
                    {"aspect", static_cast<double>(first.width) / first.height},
                    {"render_time", camera.time}});
  }
  return {{"camera_type", "perspective"},
          {"render_width", first.width},
          {"render_height", first.height},
          {"fps", static_cast<double>(cameras.size()) / seconds},
          {"seconds", seconds},
          {"is_cycle", false},
          {"camera_path", std::move(path)}};
}

Json InstantNgpPath(std::span<const Camera> cameras, double seconds, bool is_loop) {
  Json path = Json::array();
  for (const Camera& camera : cameras) {
    const Vec3 place = camera.camera_to_world.Column(3);
    path.push_back({{"R", QuaternionYDown(camera.camera_to_world)},
                    {"T", Json::array({place.x, place.y, place.z})},
                    {"fov", FieldOfView(camera)},
                    {"slice", 0},
                    {"scale", 1},
                    {"aperture_size", 0}});
  }
  return {{"loop", is_loop}, {"duration_seconds", seconds}, {"time", 0}, {"path", std::move(path)}};
}

}  // namespace

std::string CameraPathJson(PathTool tool, std::span<const Camera> cameras, double seconds,
                           bool is_loop) {
  const Json path = tool == PathTool::kNerfstudio ? NerfstudioPath(cameras, seconds)
                                                  : InstantNgpPath(cameras, seconds, is_loop);
  return path.dump(1) + "\n";
}

}  // namespace nerf
