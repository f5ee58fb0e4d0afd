#include "engine/export/mesh/mesh_parts.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace nerf {
namespace {

// The lowest vertex of each vertex's part. Source: Tarjan 1975, with path halving.
std::vector<uint32_t> RootsOf(const TriangleMesh& mesh) {
  std::vector<uint32_t> parents(mesh.positions.size());
  std::iota(parents.begin(), parents.end(), 0u);
  const auto root_of = [&](uint32_t vertex) {
    while (parents[vertex] != vertex) {
      parents[vertex] = parents[parents[vertex]];
      vertex = parents[vertex];
    }
    return vertex;
  };
  for (size_t i = 0; i < mesh.indices.size(); ++i) {
    const uint32_t a = root_of(mesh.indices[i - i % 3]), b = root_of(mesh.indices[i]);
    parents[std::max(a, b)] = std::min(a, b);
  }
  for (uint32_t vertex = 0; vertex < parents.size(); ++vertex) parents[vertex] = root_of(vertex);
  return parents;
}

double AreaOf(const TriangleMesh& mesh, size_t first_index) {
  const Vec3 a = mesh.positions[mesh.indices[first_index]];
  return 0.5 * Norm(Cross(mesh.positions[mesh.indices[first_index + 1]] - a,
                          mesh.positions[mesh.indices[first_index + 2]] - a));
}

}  // namespace

DroppedParts DropParts(float min_share,
                       const std::function<bool(const std::vector<uint32_t>& vertices)>& is_kept,
                       TriangleMesh* mesh) {
  const std::vector<uint32_t> roots = RootsOf(*mesh);
  std::vector<double> areas(roots.size());  // of parts, at their roots
  for (size_t i = 0; i < mesh->indices.size(); i += 3) {
    areas[roots[mesh->indices[i]]] += AreaOf(*mesh, i);
  }
  const double largest = areas.empty() ? 0 : *std::max_element(areas.begin(), areas.end());
  std::vector<std::vector<uint32_t>> members;  // of parts that are large enough
  std::vector<uint32_t> part_of(roots.size());
  DroppedParts dropped;
  std::vector<bool> kept(roots.size());
  for (uint32_t vertex = 0; vertex < roots.size(); ++vertex) {
    const uint32_t root = roots[vertex];
    if (root == vertex) {
      ++dropped.n_parts;
      kept[root] = areas[root] >= min_share * largest;
      if (!kept[root]) continue;
      part_of[root] = static_cast<uint32_t>(members.size());
      members.emplace_back();
    }
    if (kept[root]) members[part_of[root]].push_back(vertex);
  }
  for (const std::vector<uint32_t>& vertices : members) {
    if (is_kept != nullptr && !is_kept(vertices)) kept[roots[vertices.front()]] = false;
    dropped.n_kept += kept[roots[vertices.front()]] ? 1 : 0;
  }
  std::vector<uint32_t> indices;
  for (size_t i = 0; i < mesh->indices.size(); i += 3) {
    if (!kept[roots[mesh->indices[i]]]) continue;
    indices.insert(indices.end(), mesh->indices.begin() + static_cast<ptrdiff_t>(i),
                   mesh->indices.begin() + static_cast<ptrdiff_t>(i + 3));
  }
  dropped.n_triangles = mesh->n_triangles() - indices.size() / 3;
  mesh->indices = std::move(indices);
  DropUnusedVertices(mesh);
  return dropped;
}

}  // namespace nerf
