#pragma once

#include <cstdint>
#include <vector>

namespace nerf {

// What the chunks of one gradient lane leave behind, beside gradients. Sums in chunk order.
struct ChunkSums {
  std::vector<uint32_t> cells;  // of the occupancy grid, of every sample looked at
  std::vector<float> sigmas;    // and its density
  double loss = 0;
  double squared_error = 0;
  int64_t n_marched = 0;
  int64_t n_trained = 0;

  void Clear();
};

}  // namespace nerf
