#include "common/messages/camera_path_text.h"

#include <nlohmann/json.hpp>

namespace nerf {
namespace {

using PathJson = nlohmann::ordered_json;

constexpr double kPathFramesPerSecond = 30;

// 4 rows of 4; what is absent is 0.
PathJson RowsOf(const google::protobuf::RepeatedField<double>& matrix) {
  PathJson rows = PathJson::array();
  for (int row = 0; row < 4; ++row) {
    PathJson numbers = PathJson::array();
    for (int i = 4 * row; i < 4 * row + 4; ++i)
      numbers.push_back(i < matrix.size() ? matrix[i] : 0.0);
    rows.push_back(std::move(numbers));
  }
  return rows;
}

PathJson FrameOf(const v1::Camera& camera) {
  const bool is_centered = camera.cx() == 0 && camera.cy() == 0;
  const bool is_opencv = camera.lens() == v1::LENS_MODEL_OPENCV;
  PathJson frame = {{"w", camera.width()},
                    {"h", camera.height()},
                    {"fl_x", camera.fl_x()},
                    {"fl_y", camera.fl_y() == 0 ? camera.fl_x() : camera.fl_y()},
                    {"cx", is_centered ? camera.width() / 2.0 : camera.cx()},
                    {"cy", is_centered ? camera.height() / 2.0 : camera.cy()},
                    {"camera_model", is_opencv ? "OPENCV" : "PINHOLE"}};
  if (is_opencv) {
    frame["k1"] = camera.k1();
    frame["k2"] = camera.k2();
    frame["k3"] = camera.k3();
    frame["p1"] = camera.p1();
    frame["p2"] = camera.p2();
  }
  frame["transform_matrix"] = RowsOf(camera.transform_matrix());
  frame["time"] = camera.time();
  return frame;
}

}  // namespace

std::string CameraPathText(const v1::CameraPath& path) {
  PathJson list = PathJson::array();
  for (const v1::Camera& camera : path.cameras().cameras()) list.push_back(FrameOf(camera));
  if (path.has_cameras()) return PathJson{{"frames", std::move(list)}}.dump();
  for (const v1::Keyframe& keyframe : path.keyframes().keyframes()) {
    list.push_back({{"transform_matrix", RowsOf(keyframe.transform_matrix())},
                    {"fov", keyframe.fov_degrees()}});
  }
  return PathJson{{"keyframes", std::move(list)},
                  {"loop", path.keyframes().loop()},
                  {"seconds", path.keyframes().frames() / kPathFramesPerSecond}}
      .dump();
}

}  // namespace nerf
