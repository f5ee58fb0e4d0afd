#include "tests/testing/plain_bf16_unit.h"

#include "engine/field/kernels/cpu/bf16_units.h"
#include "engine/field/kernels/cpu/tile_layers.h"
#include "tests/testing/plain_tiles.h"

namespace nerf {
namespace kernels::cpu {
namespace {

constexpr Bf16Unit kUnit{.name = "BF16_PLAIN",
                         .forward = TileForward<PlainTiles>,
                         .backward_input = TileBackwardInput<PlainTiles>,
                         .backward_weights = TileBackwardWeights<PlainTiles>,
                         .pack_columns = PlainTiles::PackColumns};

}  // namespace
}  // namespace kernels::cpu

void AddPlainBf16Unit() { kernels::cpu::AddBf16Unit(&kernels::cpu::kUnit); }

}  // namespace nerf
