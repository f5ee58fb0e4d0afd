#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// Two photographs with points that agree on how the camera moved between them.
struct ColmapPair {
  std::string first, second;
  uint64_t n_inliers = 0;
};

// What COLMAP's database says after features were extracted and matched.
struct ColmapDatabase {
  std::map<std::string, uint64_t> n_features;  // by the photograph's name
  std::vector<ColmapPair> pairs;               // in the order of their names
};

// Reads the database without changing it. Errors: NotFound; DataLoss where it is no database of
// COLMAP's or is damaged.
absl::StatusOr<ColmapDatabase> ReadColmapDatabase(const std::string& path);

}  // namespace nerf
