#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/base/view_style.h"
#include "engine/export/mesh/mesh_parts.h"
#include "engine/export/mesh/surface.h"
#include "engine/export/mesh/texture_atlas.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/field/marched_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Says how much of a step of an export is done, 0 to 1.
using ExportProgress = std::function<void(std::string_view step, double share)>;

// Parts of a mesh with a smaller share of the largest part's area are floaters.
inline constexpr float kMinPartShare = 0.01f;

struct MeshOptions {
  std::optional<OwnBox> own_box =
      std::nullopt;              // what becomes a mesh, own frame; nullopt: the occupied box
  int resolution = 256;          // cells along the box's longest side
  size_t n_triangles = 200'000;  // at most about
  float level = 0;               // density of the surface, 1 / training unit; 0: DefaultLevel
  float time = 0;                // of the model, 0 to 1
  int texture_size = 0;          // texels along a side; 0: colors of vertices
  // Of the surface that is found; with more, what no two photographs show is left out first.
  size_t max_found = kMaxSurfaceTriangles;
};

struct MeshExport {
  TriangleMesh mesh;    // closed, with normals and, without a texture, colors; training frame
  MeshTexture texture;  // empty unless it was asked for
  int size[3] = {};     // points asked along each axis
  DroppedParts dropped;
  size_t n_found = 0;        // triangles before the mesh was simplified
  bool is_of_shown = false;  // what no two photographs show was left out, see max_found
};

// The density at which one 256th of the level-0 box stops a tenth of the light: surfaces of trained
// shapes lie a quarter of that length off on average. Higher ones open holes.
float DefaultLevel(const SceneGeometry& geometry);

// The surface where the model's density is `level`, with colors of its field. cameras: of the
// photographs, training frame; parts that they do not see are dropped, unless there are none.
// Errors: Cancelled; InvalidArgument where the density is nowhere that high, or the texture too
// small; ResourceExhausted, see ExtractSurface.
absl::StatusOr<MeshExport> MakeMesh(const MarchedModel& model, const SceneGeometry& geometry,
                                    std::span<const Camera> cameras, const MeshOptions& options,
                                    ThreadPool* pool, const std::stop_token& stop,
                                    const ExportProgress& progress);

}  // namespace nerf
