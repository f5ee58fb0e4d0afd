#include "engine/export/mesh/simplify.h"

#include <meshoptimizer.h>

#include <algorithm>
#include <array>
#include <utility>

namespace nerf {
namespace {

constexpr int kMaxPasses = 8;

using Corners = std::array<uint32_t, 3>;

// One side of a triangle.
struct Side {
  uint32_t low = 0, high = 0;  // vertices
  uint32_t triangle = 0;
  uint8_t side = 0;        // from corner `side` to the next one
  bool is_rising = false;  // leads from low to high

  std::pair<uint32_t, uint32_t> edge() const { return {low, high}; }
};

std::vector<Corners> TrianglesOf(const TriangleMesh& mesh) {
  std::vector<Corners> triangles;
  triangles.reserve(mesh.n_triangles());
  for (size_t i = 0; i < mesh.indices.size(); i += 3) {
    const Corners corners = {mesh.indices[i], mesh.indices[i + 1], mesh.indices[i + 2]};
    if (corners[0] == corners[1] || corners[1] == corners[2] || corners[2] == corners[0]) continue;
    triangles.push_back(corners);
  }
  return triangles;
}

// Removes pairs of triangles with the same vertices, seen from both sides.
void DropCoveringPairs(std::vector<Corners>* triangles) {
  // Sorted by vertices; from the lowest vertex on, a triangle and its other side differ in order.
  for (Corners& corners : *triangles) {
    std::rotate(corners.begin(), std::min_element(corners.begin(), corners.end()), corners.end());
  }
  std::vector<std::pair<Corners, size_t>> sorted;
  for (size_t i = 0; i < triangles->size(); ++i) {
    Corners vertices = (*triangles)[i];
    std::sort(vertices.begin(), vertices.end());
    sorted.emplace_back(vertices, i);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<bool> dropped(triangles->size());
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    std::vector<size_t> fronts, backs;
    for (end = begin; end < sorted.size() && sorted[end].first == sorted[begin].first; ++end) {
      const size_t triangle = sorted[end].second;
      ((*triangles)[triangle] == sorted[end].first ? fronts : backs).push_back(triangle);
    }
    for (size_t i = 0; i < std::min(fronts.size(), backs.size()); ++i) {
      dropped[fronts[i]] = dropped[backs[i]] = true;
    }
  }
  std::vector<Corners> kept;
  for (size_t i = 0; i < triangles->size(); ++i) {
    if (!dropped[i]) kept.push_back((*triangles)[i]);
  }
  *triangles = std::move(kept);
}

std::vector<Side> SidesOf(const std::vector<Corners>& triangles) {
  std::vector<Side> sides;
  sides.reserve(3 * triangles.size());
  for (uint32_t triangle = 0; triangle < triangles.size(); ++triangle) {
    for (uint8_t side = 0; side < 3; ++side) {
      const uint32_t from = triangles[triangle][side], to = triangles[triangle][(side + 1) % 3];
      sides.push_back({std::min(from, to), std::max(from, to), triangle, side, from < to});
    }
  }
  std::sort(sides.begin(), sides.end(), [](const Side& a, const Side& b) {
    return std::pair(a.edge(), a.triangle) < std::pair(b.edge(), b.triangle);
  });
  return sides;
}

// Appends a triangle with new vertices in the middle of some sides; 0: none, else the vertex + 1.
void AppendCut(const Corners& corners, const std::array<uint32_t, 3>& middles,
               std::vector<uint32_t>* indices) {
  std::vector<uint32_t> outline;
  for (int side = 0; side < 3; ++side) {
    outline.push_back(corners[side]);
    if (middles[side] != 0) outline.push_back(middles[side] - 1);
  }
  // A fan around a new vertex repeats no edge between two old ones.
  size_t first = 0;
  for (int side = 0, at = 0; side < 3; ++side) {
    ++at;
    if (middles[side] != 0) first = static_cast<size_t>(at++);
  }
  std::rotate(outline.begin(), outline.begin() + static_cast<ptrdiff_t>(first), outline.end());
  for (size_t i = 1; i + 1 < outline.size(); ++i) {
    indices->insert(indices->end(), {outline[0], outline[i], outline[i + 1]});
  }
}

// One pass of SplitSharedEdges. Returns the number of new vertices.
size_t SplitOnce(TriangleMesh* mesh) {
  std::vector<Corners> triangles = TrianglesOf(*mesh);
  DropCoveringPairs(&triangles);
  const std::vector<Side> sides = SidesOf(triangles);
  std::vector<std::array<uint32_t, 3>> middles(triangles.size());
  const size_t n_before = mesh->positions.size();
  for (size_t begin = 0, end = 0; begin < sides.size(); begin = end) {
    std::vector<const Side*> rising, falling;
    for (end = begin; end < sides.size() && sides[end].edge() == sides[begin].edge(); ++end) {
      (sides[end].is_rising ? rising : falling).push_back(&sides[end]);
    }
    for (size_t pair = 1; pair < std::min(rising.size(), falling.size()); ++pair) {
      mesh->positions.push_back(
          (mesh->positions[sides[begin].low] + mesh->positions[sides[begin].high]) * 0.5f);
      for (const Side* side : {rising[pair], falling[pair]}) {
        middles[side->triangle][side->side] = static_cast<uint32_t>(mesh->positions.size());
      }
    }
  }
  mesh->indices.clear();
  for (size_t i = 0; i < triangles.size(); ++i) AppendCut(triangles[i], middles[i], &mesh->indices);
  return mesh->positions.size() - n_before;
}

}  // namespace

bool SplitSharedEdges(TriangleMesh* mesh) {
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    const size_t n_new = SplitOnce(mesh);
    if (n_new == 0) break;
  }
  DropUnusedVertices(mesh);
  return IsClosed(*mesh);
}

void Simplify(size_t n_triangles, TriangleMesh* mesh) {
  if (mesh->n_triangles() <= n_triangles) return;
  constexpr float kAnyError = 1;  // of the mesh's extent: the number of triangles decides
  TriangleMesh simplified;
  simplified.positions = mesh->positions;
  simplified.indices.resize(mesh->indices.size());
  simplified.indices.resize(meshopt_simplify(
      simplified.indices.data(), mesh->indices.data(), mesh->indices.size(),
      &mesh->positions.data()->x, mesh->positions.size(), sizeof(Vec3), 3 * n_triangles, kAnyError,
      /*options=*/0, /*result_error=*/nullptr));
  if (SplitSharedEdges(&simplified)) *mesh = std::move(simplified);
}

}  // namespace nerf
