#include "engine/export/mesh/mesh_export.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/export/mesh/density_layers.h"
#include "engine/export/mesh/seen_parts.h"
#include "engine/export/mesh/shown_space.h"
#include "engine/export/mesh/simplify.h"
#include "engine/export/mesh/texture_atlas.h"
#include "engine/export/mesh/vertex_colors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr float kStoppedLight = 0.1f;  // by a 256th of the box, see DefaultLevel
// How far behind what a photograph shows a part may lie, in cells.
constexpr float kSeenTolerance = 2;
constexpr float kShownTolerance = 3;  // the same of a point, see FindSurface

absl::Status Interrupted() { return absl::CancelledError("the export was interrupted"); }

// shown: points outside of it count as empty; nullptr: all count.
absl::StatusOr<TriangleMesh> SurfaceOf(const SampleGrid& grid, const ShownSpace* shown,
                                       size_t max_triangles, DensityLayers* layers,
                                       ThreadPool* pool, const std::stop_token& stop,
                                       const ExportProgress& progress) {
  const auto hide = [&](int z, std::vector<float>* values) {
    pool->ParallelFor(grid.size[1], [&](int64_t y, int /*thread*/) {
      float* const row = values->data() + y * grid.size[0];
      for (int x = 0; x < grid.size[0]; ++x) {
        if (row[x] > 0 && !shown->Has(grid.PointAt(x, static_cast<int>(y), z))) row[x] = kNoDensity;
      }
    });
  };
  return ExtractSurface(
      grid,
      [&](int z, std::vector<float>* values) {
        layers->Evaluate(z, values);
        if (shown != nullptr) hide(z, values);
      },
      [&](int n_layers) {
        progress("surface", static_cast<double>(n_layers) / grid.size[2]);
        return stop.stop_requested();
      },
      max_triangles);
}

// The mesh of the surface that photographs show, in made->mesh.
absl::Status FindSurface(const MarchedModel& model, const SceneGeometry& geometry,
                         std::span<const Camera> cameras, const SampleGrid& grid, float level,
                         const MeshOptions& options, ThreadPool* pool, const std::stop_token& stop,
                         const ExportProgress& progress, MeshExport* made) {
  DensityLayers layers(model, grid, level, options.time, pool);
  absl::StatusOr<TriangleMesh> mesh =
      SurfaceOf(grid, nullptr, options.max_found, &layers, pool, stop, progress);
  if (absl::IsResourceExhausted(mesh.status()) && !cameras.empty()) {
    // Fog where no photograph looks can have more of a surface than all that they show.
    NERF_ASSIGN_OR_RETURN(const ShownSpace shown,
                          ShownSpace::Make(model, cameras, geometry.near,
                                           kShownTolerance * grid.cell, options.time, pool, stop));
    made->is_of_shown = true;
    mesh = SurfaceOf(grid, &shown, options.max_found, &layers, pool, stop, progress);
  }
  NERF_RETURN_IF_ERROR(mesh.status());
  made->mesh = *std::move(mesh);
  return absl::OkStatus();
}

}  // namespace

float DefaultLevel(const SceneGeometry& geometry) {
  return -std::log1p(-kStoppedLight) * 256 / geometry.box.Size().x;
}

absl::StatusOr<MeshExport> MakeMesh(const MarchedModel& model, const SceneGeometry& geometry,
                                    std::span<const Camera> cameras, const MeshOptions& options,
                                    ThreadPool* pool, const std::stop_token& stop,
                                    const ExportProgress& progress) {
  const SampleGrid grid =
      SampleGridOver(model.OccupiedBox(), options.own_box, geometry.frame, options.resolution);
  const float level = options.level > 0 ? options.level : DefaultLevel(geometry);
  MeshExport made;
  std::copy(grid.size, grid.size + 3, made.size);
  NERF_RETURN_IF_ERROR(
      FindSurface(model, geometry, cameras, grid, level, options, pool, stop, progress, &made));
  SeenParts seen(model, cameras, geometry.near, kSeenTolerance * grid.cell, options.time);
  made.dropped = DropParts(
      kMinPartShare,
      [&](const std::vector<uint32_t>& vertices) {
        if (stop.stop_requested()) return true;
        std::vector<Vec3> points;
        for (const uint32_t vertex : vertices) points.push_back(made.mesh.positions[vertex]);
        return seen.Sees(points);
      },
      &made.mesh);
  if (made.mesh.indices.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "no surface: the density is nowhere above {:.3g} in the box, or no photograph shows where "
        "it is; a lower --density or another --crop may have one",
        level * geometry.frame.scale));
  }
  if (stop.stop_requested()) return Interrupted();
  made.n_found = made.mesh.n_triangles();
  progress("simplify", 0);
  Simplify(options.n_triangles, &made.mesh);
  if (made.mesh.indices.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--triangles: {} leaves nothing of the {} that there are", options.n_triangles,
                    made.n_found));
  }
  if (stop.stop_requested()) return Interrupted();
  progress("colors", 0);
  made.mesh.normals = VertexNormals(made.mesh);
  const float color_cell = geometry.box.Size().x / 256;
  if (options.texture_size > 0) {
    NERF_ASSIGN_OR_RETURN(
        made.texture, MakeTexture(model, made.mesh, options.texture_size, color_cell, options.time,
                                  pool, stop, [&](double share) { progress("colors", share); }));
    return made;
  }
  made.mesh.colors.resize(made.mesh.positions.size());
  if (!ColorPoints(model, made.mesh.positions, made.mesh.normals, color_cell, options.time, pool,
                   stop, made.mesh.colors.data())) {
    return Interrupted();
  }
  return made;
}

}  // namespace nerf
