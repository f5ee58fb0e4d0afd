#include "engine/kernels/cpu/plain_tiles.h"
#include "engine/kernels/cpu/tile_layers.h"

namespace nerf::kernels::cpu {

const PairUnit* PlainPairUnit() {
  static constexpr PairUnit kUnit{.name = "BF16_PLAIN",
                                  .forward = TileForward<PlainTiles>,
                                  .backward_input = TileBackwardInput<PlainTiles>,
                                  .backward_weights = TileBackwardWeights<PlainTiles>,
                                  .pair_along_columns = PlainTiles::PairAlongColumns};
  return &kUnit;
}

}  // namespace nerf::kernels::cpu
