#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/scene/pose.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {

enum class PlantedForm { kTransforms, kColmap };

// A made-up capture around an object, which a test spoils and writes as another tool would. Twelve
// cameras look at the origin, with masks and depths where asked for.
struct PlantedScene {
  struct Shot {
    std::string name;    // of the file on disk, in images/
    std::string listed;  // what the list calls it
    Pose pose;           // OpenGL's axes
    std::string more;    // further fields of its frame in transforms.json
  };

  PlantedScene();
  // The same with the axes that COLMAP has, world to camera, is written for kColmap.
  void Write(const TempFolder& folder, PlantedForm form) const;

  std::vector<Shot> shots;
  Vec3d shift = {0, 0, 0};                      // of all that is written
  int picture_width = 40, picture_height = 30;  // on disk
  // As the file states them. COLMAP: OPENCV of width, height, focal[2], center[2], k1.
  double width = 40, height = 30, focal[2] = {44, 44}, center[2] = {20, 15}, k1 = 0;
  bool has_size = true;                       // transforms.json states the size
  bool has_points = false;                    // of COLMAP: points that the true cameras show
  std::string list_name = "transforms.json";  // COLMAP: of images.txt's folder, "sparse/0"
  // Written after all else, by its name in the folder.
  std::map<std::string, std::string> files;

 private:
  std::vector<Pose> true_poses_;
};

}  // namespace nerf
