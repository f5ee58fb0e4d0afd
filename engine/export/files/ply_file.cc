#include "engine/export/files/ply_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/export/files/little_endian.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Of a disk: its standard deviations in cells, and how much light it stops in its middle.
constexpr float kDiskRadius = 0.5f, kDiskThickness = 0.05f, kDiskOpacity = 0.95f;
constexpr float kShConstant = 0.28209479f;  // spherical harmonic of degree 0

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

// Unit quaternion w, x, y, z of the shortest rotation from +z to the normal.
struct Quaternion {
  float w, x, y, z;
};

Quaternion FromZTo(Vec3 normal) {
  const float w = 1 + normal.z;
  if (w < 1e-6f) return {0, 1, 0, 0};
  const float length = std::sqrt(w * w + normal.x * normal.x + normal.y * normal.y);
  return {w / length, -normal.y / length, normal.x / length, 0};
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

std::string SplatsPly(std::span<const SurfacePoint> points, float cell, const ExportAxes& axes) {
  std::string bytes = PlyHeader(
      fmt::format("element vertex {}\n", points.size()) +
          FloatProperties({"x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity",
                           "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"}),
      axes);
  const float radius = std::log(kDiskRadius * axes.Length(cell));
  const float thickness = std::log(kDiskThickness * axes.Length(cell));
  const float opacity = std::log(kDiskOpacity / (1 - kDiskOpacity));
  for (const SurfacePoint& point : points) {
    const Vec3 normal = axes.Direction(point.normal);
    const Quaternion turn = FromZTo(normal);
    AppendVector(&bytes, axes.Point(point.position));
    AppendVector(&bytes, normal);
    AppendVector(&bytes, (point.color - Vec3{0.5f, 0.5f, 0.5f}) * (1 / kShConstant));
    AppendNumbers(&bytes, opacity, radius, radius, thickness, turn.w, turn.x, turn.y, turn.z);
  }
  return bytes;
}

}  // namespace nerf
