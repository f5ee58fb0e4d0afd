#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/export/mesh/texture_atlas.h"

namespace nerf {

// A point of a mesh's triangle, and what its texture has there between four texels.
struct TexturePoint {
  Vec3 position, normal, color;
};

// Random points of all triangles, n of each. The mesh needs normals.
inline std::vector<TexturePoint> TexturePoints(const TriangleMesh& mesh, const MeshTexture& texture,
                                               int n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<TexturePoint> points;
  for (size_t i = 0; i < static_cast<size_t>(n) * mesh.n_triangles(); ++i) {
    const size_t triangle = i % mesh.n_triangles();
    float u = uniform(random), v = uniform(random);
    if (u + v > 1) u = 1 - u, v = 1 - v;
    const float shares[3] = {1 - u - v, u, v};
    TexturePoint point;
    float x = -0.5f, y = -0.5f;  // from the center of the first texel
    for (size_t k = 0; k < 3; ++k) {
      const uint32_t vertex = mesh.indices[3 * triangle + k];
      const TextureVertex& placed =
          texture.layout.vertices[texture.layout.indices[3 * triangle + k]];
      x += placed.x * shares[k];
      y += placed.y * shares[k];
      point.position = point.position + mesh.positions[vertex] * shares[k];
      point.normal = point.normal + mesh.normals[vertex] * shares[k];
    }
    point.normal = Normalized(point.normal);
    const int left = static_cast<int>(x), top = static_cast<int>(y);
    for (int corner = 0; corner < 4; ++corner) {
      const int column = std::min(left + (corner & 1), texture.picture.width - 1);
      const int row = std::min(top + (corner >> 1), texture.picture.height - 1);
      const float along = x - left, down = y - top;
      const float weight =
          ((corner & 1) != 0 ? along : 1 - along) * ((corner >> 1) != 0 ? down : 1 - down);
      const uint8_t* const pixel = texture.picture.Pixel(column, row);
      point.color =
          point.color + Vec3{float(pixel[0]), float(pixel[1]), float(pixel[2])} * (weight / 255);
    }
    points.push_back(point);
  }
  return points;
}

// The largest difference of a channel of two colors.
inline float LargestDifference(Vec3 a, Vec3 b) {
  return std::max({std::abs(a.x - b.x), std::abs(a.y - b.y), std::abs(a.z - b.z)});
}

}  // namespace nerf
