#pragma once

#include <span>
#include <string>

#include "engine/export/files/export_axes.h"
#include "engine/export/mesh/surface_points.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/methods/splats/splat_cloud.h"

namespace nerf {

// Files of the format PLY, binary and little-endian, in the frame that `axes` say. Where they have
// an origin, positions are relative to it, and the header has "comment origin X Y Z": most programs
// read doubles into floats. Source: Turk 1994, "The PLY polygon file format".

// Vertices with x, y, z, nx, ny, nz, red, green, blue and faces with vertex_indices. Needs normals
// and colors.
std::string MeshPly(const TriangleMesh& mesh, const ExportAxes& axes);

// Vertices with x, y, z, nx, ny, nz, red, green, blue.
std::string PointsPly(std::span<const SurfacePoint> points, const ExportAxes& axes);

// Gaussians in the layout of 3D Gaussian splatting: x, y, z, nx, ny, nz (0), f_dc_0..2, f_rest_0..
// (a channel's harmonics beside each other), opacity, scale_0..2, rot_0..3. Widths are part of
// scales and opacities. Source: Kerbl et al. 2023.
std::string SplatsPly(const SplatCloud& cloud, const ExportAxes& axes);

}  // namespace nerf
