#pragma once

#include <string>

#include "engine/export/export_axes.h"
#include "engine/export/triangle_mesh.h"

namespace nerf {

// A binary glTF 2.0 file of one mesh with positions, normals, colors and a material without
// lighting (KHR_materials_unlit): the colors hold the photographs' light. Needs normals and colors.
// Requires: axes are not mirrored, at least one triangle.
std::string MeshGlb(const TriangleMesh& mesh, const ExportAxes& axes);

}  // namespace nerf
