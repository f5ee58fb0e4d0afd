#include "engine/export/mesh/triangle_mesh.h"

#include <algorithm>
#include <utility>

namespace nerf {

std::vector<Vec3> VertexNormals(const TriangleMesh& mesh) {
  std::vector<Vec3> around(mesh.positions.size());  // sums of areas times normals
  for (size_t i = 0; i < mesh.indices.size(); i += 3) {
    const uint32_t* const corners = mesh.indices.data() + i;
    const Vec3 a = mesh.positions[corners[0]];
    const Vec3 twice_area = Cross(mesh.positions[corners[1]] - a, mesh.positions[corners[2]] - a);
    for (int corner = 0; corner < 3; ++corner) {
      around[corners[corner]] = around[corners[corner]] + twice_area;
    }
  }
  std::vector<Vec3> normals(mesh.positions.size());
  for (size_t i = 0; i < mesh.indices.size(); i += 3) {
    const uint32_t* const corners = mesh.indices.data() + i;
    const Vec3 sum = around[corners[0]] + around[corners[1]] + around[corners[2]];
    for (int corner = 0; corner < 3; ++corner) {
      normals[corners[corner]] = normals[corners[corner]] + sum;
    }
  }
  for (Vec3& normal : normals) {
    const float length = Norm(normal);
    normal = length > 0 ? normal * (1 / length) : Vec3{0, 0, 1};
  }
  return normals;
}

void DropUnusedVertices(TriangleMesh* mesh) {
  constexpr uint32_t kUnused = ~uint32_t{0};
  std::vector<uint32_t> moved(mesh->positions.size(), kUnused);
  std::vector<Vec3> kept;
  for (uint32_t& index : mesh->indices) {
    if (moved[index] == kUnused) {
      moved[index] = static_cast<uint32_t>(kept.size());
      kept.push_back(mesh->positions[index]);
    }
    index = moved[index];
  }
  mesh->positions = std::move(kept);
  mesh->normals.clear();
  mesh->colors.clear();
}

bool IsClosed(const TriangleMesh& mesh) {
  // Each edge as its vertices, the lower one first, and whether it leads to the higher one.
  std::vector<std::pair<uint64_t, bool>> edges;
  edges.reserve(mesh.indices.size());
  for (size_t i = 0; i < mesh.indices.size(); ++i) {
    const uint64_t from = mesh.indices[i];
    const uint64_t to = mesh.indices[i % 3 == 2 ? i - 2 : i + 1];
    if (from == to) return false;
    edges.emplace_back(std::min(from, to) << 32 | std::max(from, to), from < to);
  }
  std::sort(edges.begin(), edges.end());
  for (size_t i = 0; i < edges.size(); i += 2) {
    if (i + 1 == edges.size() || edges[i].first != edges[i + 1].first) return false;
    if (edges[i].second == edges[i + 1].second) return false;
    if (i + 2 < edges.size() && edges[i].first == edges[i + 2].first) return false;
  }
  return true;
}

}  // namespace nerf
