#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/colmap_points.h"

namespace nerf {

// A photograph's camera in a COLMAP model; axes as COLMAP has them: x right, y down, z forward.
struct PosedPhoto {
  std::array<double, 3> center{};
  std::array<std::array<double, 3>, 3> axes{};  // right, down, forward in the world
  uint64_t n_points = 0;                        // points of the model that it shows
};

// The parts of a COLMAP model that a report needs.
struct PosedModel {
  std::map<std::string, PosedPhoto> photos;  // by name in images/
  std::vector<ColmapPoint> points;
  std::vector<std::string> lenses;  // "OPENCV 1080x1920, focal length 1375 pixels"
  double reprojection_error = 0;    // mean over points, pixels; 0 without points
  double parallax_degrees = 0;      // median over points of the widest angle between their rays
};

// Reads cameras.bin, images.bin and points3D.bin of a folder. DataLoss listing the problems.
absl::StatusOr<PosedModel> ReadPosedModel(const std::string& folder);

// The subfolders 0, 1, ... with a model of the mapper, and the number of photographs in each,
// largest first. Leaves out damaged ones.
struct ModelSize {
  std::string folder;
  size_t n_photos = 0;
};
std::vector<ModelSize> ModelsIn(const std::string& folder);

// The up direction of a model: the mean of the cameras' up vectors or, if all cameras look straight
// at the plane of the points, as from a drone, the opposite of their viewing direction. {0, 0, 0}
// if the cameras have no common direction.
std::array<double, 3> UpOf(const PosedModel& model);

}  // namespace nerf
