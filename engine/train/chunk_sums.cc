#include "engine/train/chunk_sums.h"

namespace nerf {

void ChunkSums::Clear() {
  cells.clear();
  sigmas.clear();
  loss = squared_error = 0;
  n_marched = n_trained = 0;
}

}  // namespace nerf
