#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/program/bench/synthetic_scene.h"
#include "engine/scene/pictures/image_io.h"
#include "nlohmann/json.hpp"

namespace nerf {

// Writes the synthetic ball as a Blender data set: transforms_{train,test}.json and PNG files.
inline void WriteBallDataset(const std::string& dir, int n_train = 6, int n_test = 2,
                             int image_size = 24) {
  const Scene scene = SyntheticBallScene(n_train, n_test, image_size);
  const auto write = [&](const std::string& split, const std::vector<View>& views) {
    std::filesystem::create_directories(dir + "/" + split);
    nlohmann::json list = {{"frames", nlohmann::json::array()}};
    for (size_t i = 0; i < views.size(); ++i) {
      const Camera& camera = views[i].camera;
      list["camera_angle_x"] = 2 * std::atan(0.5 * camera.width / camera.fl_x);
      const std::string name = split + "/r_" + std::to_string(i);
      nlohmann::json matrix = nlohmann::json::array();
      for (const auto& row : camera.camera_to_world.m) {
        matrix.push_back({row[0], row[1], row[2], row[3]});
      }
      matrix.push_back({0, 0, 0, 1});
      list["frames"].push_back({{"file_path", "./" + name}, {"transform_matrix", matrix}});
      if (!WritePng(dir + "/" + name + ".png", views[i].image).ok()) std::abort();
    }
    std::ofstream(dir + "/transforms_" + split + ".json") << list.dump(1);
  };
  write("train", scene.train);
  if (n_test > 0) write("test", scene.test);
}

}  // namespace nerf
