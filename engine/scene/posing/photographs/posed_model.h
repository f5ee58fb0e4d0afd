#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/read/colmap_model.h"
#include "engine/scene/read/colmap_points.h"

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

// The camera of an image of COLMAP, and back. n_points is 0.
PosedPhoto ToPosedPhoto(const ColmapImage& image);
ColmapImage ToColmapImage(const PosedPhoto& photo, uint32_t id, uint32_t camera_id,
                          const std::string& name);

// Reads the cameras, images and points3D of a folder; text if there is no images.bin. DataLoss
// listing the problems.
absl::StatusOr<PosedModel> ReadPosedModel(const std::string& folder);
// Its cameras and images, as they are in the files.
absl::StatusOr<ColmapModel> ReadModelFiles(const std::string& folder);

// Writes cameras.txt, images.txt and points3D.txt into a folder, which is made. The tracks of
// points name images, but no features of them.
absl::Status WriteColmapText(const std::string& folder, const ColmapModel& model,
                             const std::vector<ColmapPoint>& points);

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
