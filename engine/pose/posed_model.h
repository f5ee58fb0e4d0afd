#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/pose/colmap_points.h"

namespace nerf {

// A photograph's camera in a COLMAP model; axes as COLMAP has them: x right, y down, z forward.
struct PosedPhoto {
  std::array<double, 3> center{};
  std::array<std::array<double, 3>, 3> axes{};  // right, down, forward in the world
  uint64_t n_points = 0;                        // of the model that it shows
};

// A model that COLMAP wrote, as far as a report needs it.
struct PosedModel {
  std::map<std::string, PosedPhoto> photos;  // by name in images/
  std::vector<ColmapPoint> points;
  std::vector<std::string> lenses;  // "OPENCV 1080x1920, focal length 1375 pixels"
  double reprojection_error = 0;    // mean over points, pixels; 0 without points
  double parallax_degrees = 0;      // median over points of the widest angle between their rays
};

// Reads cameras.bin, images.bin and points3D.bin of a folder. DataLoss that lists what is wrong.
absl::StatusOr<PosedModel> ReadPosedModel(const std::string& folder);

// The subfolders 0, 1, ... that the mapper wrote which hold a model, with the number of photographs
// in each, the largest first. Damaged ones are left out.
struct ModelSize {
  std::string folder;
  size_t n_photos = 0;
};
std::vector<ModelSize> ModelsIn(const std::string& folder);

// Up in a model's world: mean of the cameras' up vectors, or where all look one way and that is
// straight at the plane of the points, as of a drone's photographs, against that way. {0, 0, 0}
// where they have none in common.
std::array<double, 3> UpOf(const PosedModel& model);

}  // namespace nerf
