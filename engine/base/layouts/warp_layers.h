#pragma once

namespace nerf {

// What method dynamic has beside the layers of ngp: the warp, an MLP that says by how much a point
// at a time is moved before it is encoded. Layers have no biases; ReLU between them.
//
// Its inputs, first those of the point p in [-1, 1]^3: p, what bf16 cuts off of p, then sine and
// cosine of 2^k pi p for k = 0, ..., kWarpOctaves - 1, zeros; then those of the time t: 1, t, sine
// and cosine of 2^k pi t for k = 0, ..., kTimeOctaves - 1, zeros.
inline constexpr int kWarpOctaves = 4;
inline constexpr int kTimeOctaves = 2;  // more would swing between and beyond the pictures
inline constexpr int kPlaceWidth = 32;  // 30 used
inline constexpr int kTimeWidth = 16;   // 6 used
inline constexpr int kWarpHiddenWidth = 64;
inline constexpr int kWarpOutputWidth = 16;  // 3 used: the shift in the unit cube

struct WarpLayer {
  const char* tensor_name;
  int n_in, n_out, offset;  // weights [n_in][n_out] at the offset
};
inline constexpr WarpLayer kWarpLayers[] = {
    {"field.warp_mlp.0", kPlaceWidth + kTimeWidth, kWarpHiddenWidth, 0},
    {"field.warp_mlp.1", kWarpHiddenWidth, kWarpHiddenWidth,
     (kPlaceWidth + kTimeWidth) * kWarpHiddenWidth},
    {"field.warp_mlp.2", kWarpHiddenWidth, kWarpOutputWidth,
     (kPlaceWidth + kTimeWidth + kWarpHiddenWidth) * kWarpHiddenWidth}};
inline constexpr int kWarpWeights =
    (kPlaceWidth + kTimeWidth + kWarpHiddenWidth + kWarpOutputWidth) * kWarpHiddenWidth;

}  // namespace nerf
