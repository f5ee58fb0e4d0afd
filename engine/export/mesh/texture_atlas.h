#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/field/marched_model.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Where a triangle lies in a texture: its corners are centers of texels.
struct AtlasPlace {
  int x = 0, y = 0;   // texel of corner `first`, where the legs meet
  int leg = 0;        // texels to the next corner, along x, and to the last one, along y
  int sign = 1;       // -1: the legs lead to lower x and y
  uint8_t first = 0;  // number of that corner in its triangle, 0 to 2
};

// A square picture with the colors of a mesh.
struct MeshTexture {
  std::vector<AtlasPlace> places;  // of the triangles
  ImageU8 picture;                 // RGB
};

// Places the triangles in a square of `size` texels: two of like size make a cell, cells lie in
// rows by height. Legs are about proportional to the longer of the two sides that meet opposite of
// the longest one. A row of texels beside each longest side is its own, so that interpolation
// between texels takes none of another triangle's. Errors: InvalidArgument where they do not fit.
absl::StatusOr<std::vector<AtlasPlace>> PlaceTriangles(const TriangleMesh& mesh, int size);

// A texture whose texels have the colors that ColorPoints asks of the model. Needs normals. cell,
// time: see ColorPoints. Errors: those of PlaceTriangles; Cancelled.
absl::StatusOr<MeshTexture> MakeTexture(const MarchedModel& model, const TriangleMesh& mesh,
                                        int size, float cell, float time, ThreadPool* pool,
                                        const std::stop_token& stop,
                                        const std::function<void(double share)>& progress);

}  // namespace nerf
