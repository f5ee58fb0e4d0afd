#pragma once

namespace nerf {

// What method dynamic has beside the layers of ngp: the time's features, which the first density
// layer reads beside the hash encoding. They are 1, t, and sine and cosine of 2^k pi t for
// k = 0, ..., kTimeOctaves - 1, then zeros.
inline constexpr int kTimeOctaves = 2;  // more would swing between and beyond the pictures
inline constexpr int kTimeWidth = 16;   // 6 used
inline constexpr const char* kTimeLayerName = "field.time_mlp.0";  // [kTimeWidth, kHiddenWidth]

}  // namespace nerf
