#include "engine/kernels/cpu/plain_tiles.h"
#include "engine/kernels/cpu/tile_layers.h"

namespace nerf::kernels::cpu {

const Bf16Unit* PlainBf16Unit() {
  static constexpr Bf16Unit kUnit{.name = "BF16_PLAIN",
                                  .forward = TileForward<PlainTiles>,
                                  .backward_input = TileBackwardInput<PlainTiles>,
                                  .backward_weights = TileBackwardWeights<PlainTiles>,
                                  .pack_columns = PlainTiles::PackColumns};
  return &kUnit;
}

}  // namespace nerf::kernels::cpu
