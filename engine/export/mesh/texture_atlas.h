#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/export/mesh/mesh_charts.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/field/marched_model.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Texels around a chart that are its own: so many, or 1 and more where charts are small. With 4,
// interpolation takes nothing of another chart in pictures of half and a quarter of the size.
inline constexpr int kMaxChartGutter = 4;

// A vertex of a chart: where it is in the texture. A texel's center is at its number + 0.5.
struct TextureVertex {
  uint32_t vertex = 0;  // of the mesh
  float x = 0, y = 0;   // in texels, rows top to bottom
};

// Where a chart lies in a texture.
struct ChartPlace {
  int x = 0, y = 0, width = 0, height = 0;  // texels, with its gutter
};

// How a mesh lies in a square texture.
struct TextureLayout {
  std::vector<MeshChart> charts;
  std::vector<ChartPlace> places;       // of the charts; no two overlap
  int gutter = 1;                       // texels on each side of a place
  std::vector<TextureVertex> vertices;  // one for each chart that a vertex of the mesh is in
  std::vector<uint32_t> indices;        // into `vertices`, three a triangle of the mesh
};

// A square picture with the colors of a mesh.
struct MeshTexture {
  TextureLayout layout;
  ImageU8 picture;  // RGB; empty without a texture
};

// Lays the charts of a mesh (ChartsOf) into a square of `size` texels, all at one scale: as large
// as fits. Charts are turned to fill their rectangles. Needs normals. Errors: InvalidArgument where
// they do not fit, with the numbers that would.
absl::StatusOr<TextureLayout> LayOut(const TriangleMesh& mesh, int size);

// A texture whose texels have the colors that ColorPoints asks of the model. Texels between charts
// have colors of the next chart. Needs normals. cell, time: see ColorPoints. Errors: those of
// LayOut; Cancelled.
absl::StatusOr<MeshTexture> MakeTexture(const MarchedModel& model, const TriangleMesh& mesh,
                                        int size, float cell, float time, ThreadPool* pool,
                                        const std::stop_token& stop,
                                        const std::function<void(double share)>& progress);

}  // namespace nerf
