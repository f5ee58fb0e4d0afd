#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/export/files/export_axes.h"
#include "engine/export/mesh/texture_atlas.h"
#include "engine/export/mesh/triangle_mesh.h"

namespace nerf {

// A binary glTF 2.0 file of one mesh with positions, normals and a material without lighting
// (KHR_materials_unlit): the colors hold the photographs' light. They are those of the texture, or
// of the vertices where it is empty. Needs normals. Requires: axes are not mirrored, at least one
// triangle. Errors: those of EncodePng.
absl::StatusOr<std::string> MeshGlb(const TriangleMesh& mesh, const MeshTexture& texture,
                                    const ExportAxes& axes);

}  // namespace nerf
