#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// Two photographs with matching points that agree on the camera's motion between them.
struct ColmapPair {
  std::string first, second;
  uint64_t n_inliers = 0;
};

// The contents of COLMAP's database after features were extracted and matched.
struct ColmapDatabase {
  std::map<std::string, uint64_t> n_features;  // by the photograph's name
  std::vector<ColmapPair> pairs;               // in the order of their names
};

// Reads the database without changing it. Errors: NotFound; DataLoss if it is not a database of
// COLMAP or is damaged.
absl::StatusOr<ColmapDatabase> ReadColmapDatabase(const std::string& path);

// Ids of a photograph and of its camera.
struct ColmapIds {
  uint32_t image = 0, camera = 0;
};
// Those of all photographs, by name. Errors: as ReadColmapDatabase.
absl::StatusOr<std::map<std::string, ColmapIds>> ReadColmapIds(const std::string& path);

}  // namespace nerf
