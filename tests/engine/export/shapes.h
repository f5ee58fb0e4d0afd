#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/export/mesh/mesh_export.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/field/marched_model.h"
#include "engine/field/occupancy_grid.h"

namespace nerf {

// Distance to a surface, negative inside.
using Shape = std::function<float(Vec3)>;

inline Shape Sphere(Vec3 center, float radius) {
  return [=](Vec3 p) { return Norm(p - center) - radius; };
}
// Around the z axis.
inline Shape Torus(float radius, float thickness) {
  return [=](Vec3 p) { return std::hypot(std::hypot(p.x, p.y) - radius, p.z) - thickness; };
}
inline Shape Union(Shape a, Shape b) {
  return [=](Vec3 p) { return std::min(a(p), b(p)); };
}

// The density of a trained shape: it grows by a factor of e every `softness` on the way in. Color
// is the position, as 0.5 + p / 2.
class ShapeField final : public RadianceField {
 public:
  ShapeField(Shape shape, float level, float softness)
      : shape_(std::move(shape)), level_(level), softness_(softness) {}

  std::unique_ptr<Workspace> NewWorkspace(int) const override { return std::make_unique<Asked>(); }
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override {
    static_cast<Asked*>(workspace)->positions.assign(positions, positions + n);
    for (int i = 0; i < n; ++i) {
      sigmas[i] = level_ * std::exp(std::min(-shape_(positions[i]) / softness_, 5.0f));
    }
  }
  void Color(int n, const int* samples, const Vec3*, Vec3* colors,
             Workspace* workspace) const override {
    const auto& asked = static_cast<Asked*>(workspace)->positions;
    for (int i = 0; i < n; ++i) colors[i] = asked[samples[i]] * 0.5f + Vec3{0.5f, 0.5f, 0.5f};
  }

 private:
  struct Asked : Workspace {
    std::vector<Vec3> positions;
  };
  const Shape shape_;
  const float level_, softness_;
};

// The unit of the tests: a level-0 box from -1 to 1.
inline SceneGeometry ShapeGeometry() {
  SceneGeometry geometry;
  geometry.near = 0.05f;
  geometry.step = geometry.box.Diagonal() / 512;
  return geometry;
}

// A model of the shape, whose cells near it and inside are occupied.
inline std::unique_ptr<MarchedModel> ModelOfShape(const Shape& shape) {
  const SceneGeometry geometry = ShapeGeometry();
  OccupancyGrid grid = FullOccupancyGrid(geometry.box, 1, 64);
  const float cell = geometry.box.Size().x / 64;
  for (int z = 0; z < 64; ++z) {
    for (int y = 0; y < 64; ++y) {
      for (int x = 0; x < 64; ++x) {
        const Vec3 center = geometry.box.min + Vec3{x + 0.5f, y + 0.5f, z + 0.5f} * cell;
        if (shape(center) < 2 * cell) continue;
        const size_t block = (static_cast<size_t>(z / 4) * 16 + y / 4) * 16 + x / 4;
        grid.occupied_blocks[block] &= ~(uint64_t{1} << (x % 4 + 4 * (y % 4) + 16 * (z % 4)));
      }
    }
  }
  return std::make_unique<MarchedModel>(
      "test",
      std::make_unique<ShapeField>(shape, DefaultLevel(geometry), geometry.box.Size().x / 256),
      std::move(grid), kernels::MarchSteps{geometry.step, geometry.cone}, 0);
}

// Distances of the vertices and of the middles of the triangles from the shape, in 256ths of the
// box: their mean and the one that 99% are below.
struct Distances {
  double mean = 0, most = 0;
};
inline Distances DistancesFrom(const Shape& shape, const TriangleMesh& mesh) {
  std::vector<float> distances;
  for (const Vec3& p : mesh.positions) distances.push_back(std::abs(shape(p)) * 128);
  for (size_t i = 0; i < mesh.indices.size(); i += 3) {
    const Vec3 middle = (mesh.positions[mesh.indices[i]] + mesh.positions[mesh.indices[i + 1]] +
                         mesh.positions[mesh.indices[i + 2]]) *
                        (1.0f / 3);
    distances.push_back(std::abs(shape(middle)) * 128);
  }
  std::sort(distances.begin(), distances.end());
  Distances result;
  for (const float distance : distances) result.mean += distance / distances.size();
  result.most = distances[distances.size() * 99 / 100];
  return result;
}

// Vertices - edges + triangles: 2 for a sphere, 0 for a torus. Requires: IsClosed.
inline int64_t EulerNumber(const TriangleMesh& mesh) {
  return static_cast<int64_t>(mesh.positions.size()) -
         static_cast<int64_t>(mesh.indices.size() / 2) + static_cast<int64_t>(mesh.n_triangles());
}

// Positive where triangles are counterclockwise from outside.
inline double VolumeOf(const TriangleMesh& mesh) {
  double volume = 0;
  for (size_t i = 0; i < mesh.indices.size(); i += 3) {
    volume += Dot(mesh.positions[mesh.indices[i]],
                  Cross(mesh.positions[mesh.indices[i + 1]], mesh.positions[mesh.indices[i + 2]])) /
              6;
  }
  return volume;
}

// A mesh of the shape as `nerf-engine export` makes it.
inline MeshExport MeshOfShape(const Shape& shape, const MeshOptions& options,
                              const SceneGeometry& geometry = ShapeGeometry(), int n_threads = 2) {
  ThreadPool pool(n_threads);
  const auto model = ModelOfShape(shape);
  auto made = MakeMesh(*model, geometry, {}, options, &pool, {}, [](std::string_view, double) {});
  return made.ok() ? *std::move(made) : MeshExport();
}

}  // namespace nerf
