#include "engine/export/files/ply_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/export_bytes.h"
#include "engine/export/files/file_splats.h"
#include "engine/export/files/little_endian.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string PlyHeader(std::string_view elements, const ExportAxes& axes) {
  std::string header =
      "ply\nformat binary_little_endian 1.0\ncomment written by nerf-engine export\n";
  if (axes.has_origin())
    header += fmt::format("comment origin {}\n", OriginText(axes.origin(), " "));
  return fmt::format("{}{}end_header\n", header, elements);
}

std::string FloatProperties(std::initializer_list<const char*> names) {
  std::string lines;
  for (const char* name : names) lines += fmt::format("property float {}\n", name);
  return lines;
}

std::string PointElements(size_t n) {
  return fmt::format(
      "element vertex {}\n{}property uchar red\nproperty uchar green\n"
      "property uchar blue\n",
      n, FloatProperties({"x", "y", "z", "nx", "ny", "nz"}));
}

void AppendPoint(const SurfacePoint& point, const ExportAxes& axes, std::string* bytes) {
  AppendVector(bytes, axes.Point(point.position));
  AppendVector(bytes, axes.Direction(point.normal));
  for (int channel = 0; channel < 3; ++channel) {
    const float byte = std::clamp(point.color[channel], 0.0f, 1.0f) * 255;
    AppendNumbers(bytes, static_cast<uint8_t>(std::lround(byte)));
  }
}

}  // namespace

std::string MeshPly(const TriangleMesh& mesh, const ExportAxes& axes) {
  std::string bytes =
      PlyHeader(fmt::format("{}element face {}\nproperty list uchar int vertex_indices\n",
                            PointElements(mesh.positions.size()), mesh.n_triangles()),
                axes);
  bytes.reserve(bytes.size() + 27 * mesh.positions.size() + 13 * mesh.n_triangles());
  for (size_t i = 0; i < mesh.positions.size(); ++i) {
    AppendPoint({mesh.positions[i], mesh.normals[i], mesh.colors[i]}, axes, &bytes);
  }
  for (size_t i = 0; i < mesh.indices.size(); i += 3) {
    uint32_t b = mesh.indices[i + 1], c = mesh.indices[i + 2];
    if (axes.is_mirrored()) std::swap(b, c);
    AppendNumbers(&bytes, uint8_t{3}, mesh.indices[i], b, c);
  }
  return bytes;
}

std::string PointsPly(std::span<const SurfacePoint> points, const ExportAxes& axes) {
  std::string bytes = PlyHeader(PointElements(points.size()), axes);
  for (const SurfacePoint& point : points) AppendPoint(point, axes, &bytes);
  return bytes;
}

std::string SplatsPly(const SplatCloud& cloud, const ExportAxes& axes) {
  const FileSplats splats(cloud, axes);
  const int n_rest = splats.n_harmonics() - 1;
  std::string properties =
      FloatProperties({"x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"});
  for (int i = 0; i < 3 * n_rest; ++i) properties += fmt::format("property float f_rest_{}\n", i);
  properties += FloatProperties(
      {"opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"});
  std::string bytes =
      PlyHeader(fmt::format("element vertex {}\n{}", splats.size(), properties), axes);
  bytes.reserve(bytes.size() + splats.size() * SplatPlyBytes(splats.degree()));
  for (size_t i = 0; i < splats.size(); ++i) {
    const FileSplat splat = splats.At(i);
    AppendVector(&bytes, splat.position);
    AppendVector(&bytes, Vec3{});
    AppendNumbers(&bytes, splat.colors[0], splat.colors[1], splat.colors[2]);
    for (int channel = 0; channel < 3; ++channel) {
      for (int k = 1; k <= n_rest; ++k) AppendNumbers(&bytes, splat.colors[3 * k + channel]);
    }
    AppendNumbers(&bytes, OpacityNumber(splat.opacity));
    for (int axis = 0; axis < 3; ++axis) AppendNumbers(&bytes, std::log(splat.scale[axis]));
    const Quaternion& q = splat.rotation;
    AppendNumbers(&bytes, q.w, q.x, q.y, q.z);
  }
  return bytes;
}

}  // namespace nerf
