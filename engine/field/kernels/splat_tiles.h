#pragma once

#include <cstdint>

#include "engine/base/vec3.h"

namespace nerf::kernels {

// Side of a tile, pixels. Pictures of splats are drawn tile by tile.
inline constexpr int kSplatTile = 16;
// A smaller alpha is skipped. The largest keeps 1 - alpha above 0, which BackwardSplatTile divides
// by.
inline constexpr float kMinSplatAlpha = 1.0f / 255, kMaxSplatAlpha = 0.99f;
// A tile ends at the splat after which every pixel has less light than this.
inline constexpr float kMinSplatTransmittance = 1e-4f;

// A Gaussian as a picture shows it: at the point p of the picture it takes
//   alpha = opacity * exp(-(a dx^2 + 2 b dx dy + c dy^2) / 2),  (dx, dy) = p - (x, y)
// of the light. Pixels. reach: how far from the middle alpha is above kMinSplatAlpha.
struct FlatSplat {
  float x = 0, y = 0;
  float a = 0, b = 0, c = 0;
  float opacity = 0;
  Vec3 color;
  float reach_x = 0, reach_y = 0;
};

// Derivatives of the loss by a FlatSplat, from the pixels of one tile. b stands for both of its
// places in the symmetric matrix.
struct FlatSplatGradient {
  float x = 0, y = 0;
  float a = 0, b = 0, c = 0;
  float opacity = 0;
  Vec3 color;

  bool operator==(const FlatSplatGradient&) const = default;
};

// Draws n splats front to back into the tile whose first pixel is (left, top).
// Source: Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering".
struct SplatTileParams {
  int left = 0, top = 0;
  int n = 0;
  const uint32_t* order = nullptr;  // [n] into splats, nearest first
  const FlatSplat* splats = nullptr;
};

// Pixels of a tile, row by row. Aligned to cache lines.
struct SplatTilePixels {
  alignas(64) float colors[3][kSplatTile * kSplatTile];
  alignas(64) float transmittances[kSplatTile * kSplatTile];
};

namespace cpu {

// Colors on black, and the light that is left. Returns how many splats were drawn before no light
// was left.
int DrawSplatTile(const SplatTileParams& params, SplatTilePixels* pixels);

// The gradients of the loss by the splats that DrawSplatTile drew; params.n is what it returned.
// drawn: what it drew; gradients: derivatives of the loss by `drawn`. Shape: splat_gradients
// [params.n].
void BackwardSplatTile(const SplatTileParams& params, const SplatTilePixels& drawn,
                       const SplatTilePixels& gradients, FlatSplatGradient* splat_gradients);

}  // namespace cpu
}  // namespace nerf::kernels
