#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"

// The contents of COLMAP's files, text and binary. colmap_reader.h interprets them.
namespace nerf {

// One of COLMAP's lens models. Unsupported ones are listed for the error messages.
struct ColmapCameraModel {
  int id;
  const char* name;
  int n_params;
  bool is_supported;
};

// EQUIRECTANGULAR is ours: nerf-engine pose writes it, in text. It has no parameters.
inline constexpr int kEquirectangularId = -1;

// The model of that name; nullptr if there is none.
const ColmapCameraModel* FindColmapCameraModel(std::string_view name);

struct ColmapCamera {
  const ColmapCameraModel* model = nullptr;
  uint64_t width = 0, height = 0;
  std::vector<double> params;
  std::string field;  // "camera 3" or "line 4"
};

// Where a picture shows a point of the model.
struct ColmapObservation {
  float x, y;      // pixels of the size that the camera states
  uint64_t point;  // its id
};

// Of a picture, the most observations that are kept, evenly chosen.
inline constexpr size_t kMaxColmapObservations = 256;

struct ColmapImage {
  double rotation[4];  // w, x, y, z of world-to-camera
  double translation[3];
  uint32_t id = 0;
  uint32_t camera_id = 0;
  std::string name;
  std::string field;
  std::vector<ColmapObservation> observations;  // kMaxColmapObservations at most
};

struct ColmapModel {
  std::map<uint32_t, ColmapCamera> cameras;
  std::vector<ColmapImage> images;
};

// Reads the cameras and images of one model; file names are relative to the folder. Adds every
// problem to *problems and returns what could be read.
ColmapModel ReadColmapModel(const SceneFolder& folder, const std::string& cameras_file,
                            const std::string& images_file, bool is_binary, Problems* problems);

}  // namespace nerf
