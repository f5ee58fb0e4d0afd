#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace nerf {

// Bytes of exported files, as engine/export writes them, for those who tell sizes before a file is
// made. Meshes have positions and normals of floats, colors of 3 bytes in PLY and of 4 16-bit
// numbers in GLB; corners of 32-bit numbers, counted in PLY.
inline constexpr size_t kPlyVertexBytes = 27, kPlyTriangleBytes = 13;
inline constexpr size_t kGlbVertexBytes = 32, kGlbTriangleBytes = 12;
inline constexpr size_t kMaxPlyHeaderBytes = 2048;

// Of a closed mesh without its header, which has half as many vertices as triangles.
inline double ExpectedMeshBytes(bool is_glb, double n_triangles) {
  return n_triangles * (is_glb ? 0.5 * kGlbVertexBytes + kGlbTriangleBytes
                               : 0.5 * kPlyVertexBytes + kPlyTriangleBytes);
}

// Of a splat whose colors are spherical harmonics up to a degree.
inline constexpr size_t SplatPlyBytes(int degree) {
  return 4 * (14 + 3 * static_cast<size_t>(degree + 1) * static_cast<size_t>(degree + 1));
}
inline constexpr int kSplatDegree = 2;  // of those of exports

// Two triangles of a square texture have at least so many texels; of fewer, vertices show more.
inline constexpr int kMinTextureCellWidth = 4, kMinTextureCellHeight = 3;

// Of a texture of `size` x `size` texels.
inline constexpr size_t MaxTexturedTriangles(size_t size) {
  return 2 * (size / kMinTextureCellWidth) * (size / kMinTextureCellHeight);
}

// Texels along a side of the smallest texture for so many triangles.
inline constexpr size_t MinTextureSize(size_t n_triangles) {
  size_t size = kMinTextureCellWidth;
  while (MaxTexturedTriangles(size) < n_triangles) ++size;
  return size;
}

// Points are made of so many views, of at most so many pixels a side.
inline constexpr int kMaxPointViews = 32, kMaxPointViewSide = 640;
inline constexpr double kMaxPoints = double{kMaxPointViews} * kMaxPointViewSide * kMaxPointViewSide;

inline double MaxPointFileBytes(double n_points) {
  return n_points * kPlyVertexBytes + kMaxPlyHeaderBytes;
}

// Files of Gaussians.
enum class SplatFile { kPly, kSpz, kSog, kGlb };

// Colors of a SOG file that depend on the direction are rows of a palette.
inline constexpr size_t kMaxSogPalette = 65'536;
inline constexpr size_t SogPaletteSize(size_t n_splats) {
  return std::clamp<size_t>(n_splats / 4, 1, kMaxSogPalette);
}

inline double MaxSplatFileBytes(SplatFile file, double n_splats) {
  constexpr double kHarmonics = (kSplatDegree + 1) * (kSplatDegree + 1);
  switch (file) {
    case SplatFile::kSpz:  // packed, 1.01 times as many where nothing can be compressed
      return n_splats * 1.01 * (20 + 3 * (kHarmonics - 1)) + 1024;
    case SplatFile::kSog: {  // seven pictures, whose bytes are coded one by one; codebooks as text
      const double palette = static_cast<double>(SogPaletteSize(static_cast<size_t>(n_splats)));
      return 1.05 * (n_splats + 8 * std::sqrt(n_splats) + 16) * 20 +
             1.05 * (palette + 64) * 3 * (kHarmonics - 1) + 32'768;
    }
    case SplatFile::kGlb:  // as floats, and a color of 4 16-bit numbers for other programs
      return n_splats * (4 * (11 + 3 * kHarmonics) + 8) + 8192;
    default:
      return n_splats * SplatPlyBytes(kSplatDegree) + kMaxPlyHeaderBytes;
  }
}

// What browsers need for the textures of a baked viewer, at most: 16 bytes a node, of which a file
// keeps 13; and the blocks of cells of all boxes' grids.
inline constexpr size_t kMaxBakedTextures = size_t{64} << 20;
inline constexpr double kMaxBakedBlocks = 8.0 * 64 * 64 * 64;

// Points of a volume that hold something, at most, and the cubes of 8^3, 128^3 and 4096^3 that do.
inline constexpr size_t kMaxVolumePoints = 64'000'000;
struct VolumeExtent {
  double n_points = 0, n_leaves = 0, n_lower = 0, n_upper = 0;
};

// Both grids, density and color: their values, and masks for each point of leaves and each child of
// nodes.
inline double MaxVdbBytes(const VolumeExtent& extent) {
  return extent.n_points * 16 + extent.n_leaves * 260 + extent.n_lower * 2060 +
         extent.n_upper * 16'400 + 4096;
}

// NanoVDB keeps all points of a leaf, and a value or an offset for each child of a node.
inline double MaxNanoVdbBytes(const VolumeExtent& extent) {
  return extent.n_leaves * 8448 + extent.n_lower * 102'400 + extent.n_upper * 811'008 + 8192;
}

// A .zip of rendered views: a PNG of 3 bytes a pixel and a depth of 4, neither of them smaller for
// being packed; for each view names, headers and its camera.
inline double MaxViewBytes(double width, double height) {
  return height * (7.01 * width + 2) + 4096;
}

}  // namespace nerf
