#include "engine/methods/ngp_tiles/describe/tile_tensors.h"

#include "fmt/format.h"

namespace nerf {

std::string TilePrefix(int tile) { return fmt::format("tile{}.", tile); }

}  // namespace nerf
