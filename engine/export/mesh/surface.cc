#include "engine/export/mesh/surface.h"

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr uint32_t kNoVertex = ~uint32_t{0};
constexpr int kEdges = 8;  // of a point, by the axes along which they lead up: bits of 1 to 7
// Vertices keep off the points, so that no two of them fall together.
constexpr float kMinShare = 0.01f;

// Corners of a cube by the axes along which they are up. Tetrahedra lead from corner 0 to 7 along
// one axis after another; the vertices of each are in positive orientation.
constexpr int kTetrahedra[6][4] = {{0, 1, 3, 7}, {0, 5, 1, 7}, {0, 3, 2, 7},
                                   {0, 2, 6, 7}, {0, 4, 5, 7}, {0, 6, 4, 7}};
// Even permutations, by the one vertex that is cut off, and by the two that are.
constexpr int kOneAndRest[4][4] = {{0, 1, 2, 3}, {1, 0, 3, 2}, {2, 0, 1, 3}, {3, 0, 2, 1}};
constexpr int kTwoAndRest[6][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2},
                                   {1, 2, 0, 3}, {1, 3, 2, 0}, {2, 3, 0, 1}};

class SurfaceBuilder {
 public:
  explicit SurfaceBuilder(const SampleGrid& grid)
      : grid_(grid),
        layer_size_(static_cast<size_t>(grid.size[0]) * grid.size[1]),
        edges_{std::vector<uint32_t>(layer_size_ * kEdges, kNoVertex),
               std::vector<uint32_t>(layer_size_ * kEdges, kNoVertex)} {}

  // Adds the triangles between layer z and the one above.
  void AddSlab(int z, const std::vector<float>& lower, const std::vector<float>& upper) {
    const int width = grid_.size[0];
    for (int y = 0; y + 1 < grid_.size[1]; ++y) {
      for (int x = 0; x + 1 < width; ++x) {
        const size_t at = static_cast<size_t>(y) * width + x;
        const std::array<float, 8> values = {
            lower[at], lower[at + 1], lower[at + width], lower[at + width + 1],
            upper[at], upper[at + 1], upper[at + width], upper[at + width + 1]};
        int n_inside = 0;
        for (const float value : values) n_inside += value > 0;
        if (n_inside == 0 || n_inside == 8) continue;
        cube_ = {x, y, z};
        for (const auto& corners : kTetrahedra) AddTetrahedron(corners, values);
      }
    }
    std::swap(edges_[0], edges_[1]);
    edges_[1].assign(layer_size_ * kEdges, kNoVertex);
  }

  size_t n_triangles() const { return mesh_.n_triangles(); }
  TriangleMesh Take() { return std::move(mesh_); }

 private:
  void AddTetrahedron(const int (&corners)[4], const std::array<float, 8>& values) {
    unsigned inside = 0;
    for (int i = 0; i < 4; ++i) inside |= static_cast<unsigned>(values[corners[i]] > 0) << i;
    const auto vertex = [&](int a, int b) { return VertexOn(corners[a], corners[b], values); };
    for (const auto& [i, j, k, l] : kOneAndRest) {
      if (inside == 1u << i) AddTriangle(vertex(i, j), vertex(i, k), vertex(i, l));
      if (inside == (15u ^ 1u << i)) AddTriangle(vertex(i, j), vertex(i, l), vertex(i, k));
    }
    for (const auto& [i, j, k, l] : kTwoAndRest) {
      if (inside != (1u << i | 1u << j)) continue;
      const uint32_t a = vertex(i, k), c = vertex(j, l);
      AddTriangle(a, vertex(i, l), c);
      AddTriangle(a, c, vertex(j, k));
    }
  }

  void AddTriangle(uint32_t a, uint32_t b, uint32_t c) {
    mesh_.indices.insert(mesh_.indices.end(), {a, b, c});
  }

  // The vertex on the edge between two corners of the cube.
  uint32_t VertexOn(int a, int b, const std::array<float, 8>& values) {
    const int low = a & b, high = a | b;  // one of the two lies on the way to the other
    const int x = cube_[0] + (low & 1), y = cube_[1] + (low >> 1 & 1);
    const size_t point = static_cast<size_t>(y) * grid_.size[0] + x;
    uint32_t& vertex = edges_[low >> 2][point * kEdges + (high ^ low)];
    if (vertex != kNoVertex) return vertex;
    vertex = static_cast<uint32_t>(mesh_.positions.size());
    const float share =
        std::min(std::max(values[low] / (values[low] - values[high]), kMinShare), 1 - kMinShare);
    Vec3 place;
    for (int axis = 0; axis < 3; ++axis) {
      const bool along = ((high ^ low) >> axis & 1) != 0;
      place[axis] = static_cast<float>(cube_[axis] + (low >> axis & 1)) + (along ? share : 0);
    }
    mesh_.positions.push_back(grid_.to_training.ApplyToPoint(place));
    return vertex;
  }

  const SampleGrid& grid_;
  const size_t layer_size_;
  std::vector<uint32_t> edges_[2];  // [layer_size_, kEdges] vertices of the lower and upper layer
  std::array<int, 3> cube_ = {};
  TriangleMesh mesh_;
};

}  // namespace

absl::StatusOr<TriangleMesh> ExtractSurface(const SampleGrid& grid, const LayerSource& layers,
                                            const std::function<bool(int n_layers)>& after_layer,
                                            size_t max_triangles) {
  SurfaceBuilder builder(grid);
  std::vector<float> lower, upper;
  for (int z = 0; z < grid.size[2]; ++z) {
    std::swap(lower, upper);
    layers(z, &upper);
    if (z > 0) builder.AddSlab(z - 1, lower, upper);
    if (builder.n_triangles() > max_triangles) {
      return absl::ResourceExhaustedError(fmt::format(
          "the surface has more than {:.3g} million triangles: take a smaller --resolution or "
          "--crop, or a model that was trained longer",
          static_cast<double>(max_triangles) / 1e6));
    }
    if (after_layer(z + 1)) return absl::CancelledError("the export was interrupted");
  }
  return builder.Take();
}

}  // namespace nerf
