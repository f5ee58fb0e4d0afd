#include "engine/export/files/camera_list.h"

#include <algorithm>
#include <functional>

#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Json = nlohmann::ordered_json;

bool HasDenominator(const Camera& camera) {
  return camera.k4 != 0 || camera.k5 != 0 || camera.k6 != 0;
}

const char* ModelName(const Camera& camera) {
  switch (camera.lens) {
    case LensModel::kEquirectangular:
      return "EQUIRECTANGULAR";
    case LensModel::kFisheye:
      return "OPENCV_FISHEYE";
    case LensModel::kOpenCv:
      return HasDenominator(camera) ? "FULL_OPENCV" : "OPENCV";
    default:
      return "PINHOLE";
  }
}

void SetLens(const Camera& camera, Json* frame) {
  if (camera.lens == LensModel::kPinhole) return;
  (*frame)["camera_model"] = ModelName(camera);
  if (camera.lens == LensModel::kEquirectangular) return;
  const bool fisheye = camera.lens == LensModel::kFisheye;
  const bool is_full = HasDenominator(camera);
  (*frame)["k1"] = camera.k1;
  (*frame)["k2"] = camera.k2;
  (*frame)["k3"] = camera.k3;
  if (fisheye || is_full) (*frame)["k4"] = camera.k4;
  if (fisheye) return;
  (*frame)["p1"] = camera.p1;
  (*frame)["p2"] = camera.p2;
  if (!is_full) return;
  (*frame)["k5"] = camera.k5;
  (*frame)["k6"] = camera.k6;
}

}  // namespace

bool IsListedLens(LensModel lens) {
  return lens != LensModel::kThinPrismFisheye && lens != LensModel::kFieldOfView;
}

std::string CameraListJson(std::span<const NamedCamera> cameras, const ExportAxes& axes) {
  Json frames = Json::array();
  for (const NamedCamera& named : cameras) {
    const Camera& camera = named.camera;
    const Pose pose = axes.CameraPose(camera.camera_to_world);
    Json matrix = Json::array();
    for (const auto& row : pose.m) matrix.push_back({row[0], row[1], row[2], row[3]});
    matrix.push_back({0, 0, 0, 1});
    Json frame = {{"file_path", named.file}, {"w", camera.width},   {"h", camera.height},
                  {"fl_x", camera.fl_x},     {"fl_y", camera.fl_y}, {"cx", camera.cx},
                  {"cy", camera.cy}};
    SetLens(camera, &frame);
    if (!named.depth.empty()) frame["depth_file_path"] = named.depth;
    if (camera.time != 0) frame["time"] = camera.time;
    frame["transform_matrix"] = matrix;
    frames.push_back(std::move(frame));
  }
  Json list = Json::object();
  if (std::any_of(cameras.begin(), cameras.end(), std::mem_fn(&NamedCamera::is_test))) {
    Json train = Json::array(), test = Json::array();
    for (const NamedCamera& named : cameras) (named.is_test ? test : train).push_back(named.file);
    list["train_filenames"] = std::move(train);
    list["test_filenames"] = std::move(test);
  }
  // nerfstudio reads the model of all cameras alone.
  const bool are_alike = std::all_of(cameras.begin(), cameras.end(), [&](const NamedCamera& named) {
    return named.camera.lens == cameras.front().camera.lens;
  });
  if (!cameras.empty() && are_alike && cameras.front().camera.lens != LensModel::kPinhole)
    list["camera_model"] = ModelName(cameras.front().camera);
  list["frames"] = std::move(frames);
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nerf
