#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/export/files/export_axes.h"
#include "engine/export/mesh/texture_atlas.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/methods/splats/splat_cloud.h"

namespace nerf {

// A binary glTF 2.0 file of one mesh with positions, normals and a material without lighting
// (KHR_materials_unlit): the colors hold the photographs' light. They are those of the texture, or
// of the vertices where it is empty. Needs normals. Requires: axes are not mirrored, at least one
// triangle. Errors: those of EncodePng.
absl::StatusOr<std::string> MeshGlb(const TriangleMesh& mesh, const MeshTexture& texture,
                                    const ExportAxes& axes);

// A binary glTF 2.0 file of Gaussians: points with attributes of KHR_gaussian_splatting, whose
// colors are sRGB, and with COLOR_0 for programs that do not know it. Requires: axes are not
// mirrored, at least one splat. Source:
// https://github.com/KhronosGroup/glTF/tree/main/extensions/2.0/Khronos/KHR_gaussian_splatting
std::string SplatsGlb(const SplatCloud& cloud, const ExportAxes& axes);

}  // namespace nerf
