#pragma once

#include <string>

namespace nerf {

inline constexpr int kMaxTiles = 16;
// The cuts between tiles [n_tiles - 1][2]: axis and position (TileCuts).
inline constexpr const char* kTileCutsName = "tiles.cuts";

// What begins the names of a tile's tensors and metadata: "tile3.".
std::string TilePrefix(int tile);

}  // namespace nerf
