#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/export/mesh/sample_grid.h"
#include "engine/export/mesh/triangle_mesh.h"

namespace nerf {

// values[y * size[0] + x] of layer z of a grid.
using LayerSource = std::function<void(int z, std::vector<float>* values)>;

inline constexpr size_t kMaxSurfaceTriangles = 8'000'000;

// The surface between the points of `grid` with values above 0 and the others, training frame. Each
// cube of eight points is cut into six tetrahedra, all alike, so that neighbors share their faces:
// the surface is closed if the outermost points are not above 0, and no edge has more than two
// triangles. Holds two layers at a time. after_layer is called with the number of layers done; true
// ends the work.
// Errors: Cancelled; ResourceExhausted for more than max_triangles.
// Source: Doi and Koide 1991, with the cut of Kuhn 1960.
absl::StatusOr<TriangleMesh> ExtractSurface(const SampleGrid& grid, const LayerSource& layers,
                                            const std::function<bool(int n_layers)>& after_layer,
                                            size_t max_triangles = kMaxSurfaceTriangles);

}  // namespace nerf
