#include "engine/export/files/ply_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/export_bytes.h"
#include "engine/export/files/little_endian.h"
#include "engine/methods/splats/harmonics.h"
#include "engine/views/path/spline.h"
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

// The rotation of a splat in the axes of a file, whose columns are those of the training frame.
// Its own axes may point either way, so that one is turned around where the file's are mirrored.
Quaternion TurnedRotation(const float* rotation, const Vec3 (&columns)[3], bool is_mirrored) {
  Mat34 own, turned;
  SetRotation({rotation[0], rotation[1], rotation[2], rotation[3]}, &own);
  for (int axis = 0; axis < 3; ++axis) {
    const Vec3 from = own.Column(axis);
    const Vec3 to = (columns[0] * from.x + columns[1] * from.y + columns[2] * from.z) *
                    (is_mirrored && axis == 2 ? -1.0f : 1.0f);
    for (int row = 0; row < 3; ++row) turned.m[row][axis] = to[row];
  }
  return QuaternionOf(turned);
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
  const int n_rest = cloud.n_harmonics() - 1;
  std::string properties =
      FloatProperties({"x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"});
  for (int i = 0; i < 3 * n_rest; ++i) properties += fmt::format("property float f_rest_{}\n", i);
  properties += FloatProperties(
      {"opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"});
  std::string bytes =
      PlyHeader(fmt::format("element vertex {}\n{}", cloud.size(), properties), axes);
  bytes.reserve(bytes.size() + cloud.size() * SplatPlyBytes(cloud.degree));
  const Vec3 columns[3] = {axes.Direction({1, 0, 0}), axes.Direction({0, 1, 0}),
                           axes.Direction({0, 0, 1})};
  const HarmonicTurn turn(cloud.degree, columns[0], columns[1], columns[2]);
  constexpr float kMaxOpacity = 1 - 1e-6f;
  for (size_t i = 0; i < cloud.size(); ++i) {
    const float* const row = cloud.row(i);
    const WidenedSplat widened = Widened(row, cloud.widths[i]);
    AppendVector(&bytes, axes.Point({row[0], row[1], row[2]}));
    AppendVector(&bytes, Vec3{});
    float colors[SplatCloud::kMaxRow];
    for (int channel = 0; channel < 3; ++channel)
      turn.Apply(row + SplatCloud::kColor + channel, 3, colors + channel);
    AppendNumbers(&bytes, colors[0], colors[1], colors[2]);
    for (int channel = 0; channel < 3; ++channel) {
      for (int k = 1; k <= n_rest; ++k) AppendNumbers(&bytes, colors[3 * k + channel]);
    }
    const float opacity = std::min(widened.opacity, kMaxOpacity);
    AppendNumbers(&bytes, OpacityNumber(opacity));
    for (int axis = 0; axis < 3; ++axis)
      AppendNumbers(&bytes, std::log(axes.Length(widened.scale[axis])));
    const Quaternion q = TurnedRotation(row + SplatCloud::kRotation, columns, axes.is_mirrored());
    AppendNumbers(&bytes, static_cast<float>(q.w), static_cast<float>(q.x), static_cast<float>(q.y),
                  static_cast<float>(q.z));
  }
  return bytes;
}

}  // namespace nerf
