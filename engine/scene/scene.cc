#include "engine/scene/scene.h"

namespace nerf {
namespace {

constexpr SceneFlavor kFlavors[] = {SceneFlavor::kBlender, SceneFlavor::kInstantNgp,
                                    SceneFlavor::kNerfstudio, SceneFlavor::kColmap};

}  // namespace

const char* SceneFlavorName(SceneFlavor flavor) {
  switch (flavor) {
    case SceneFlavor::kBlender:
      return "blender";
    case SceneFlavor::kInstantNgp:
      return "instant-ngp";
    case SceneFlavor::kNerfstudio:
      return "nerfstudio";
    case SceneFlavor::kColmap:
      return "colmap";
  }
  return "unknown";
}

std::optional<SceneFlavor> SceneFlavorFromName(const std::string& name) {
  for (SceneFlavor flavor : kFlavors) {
    if (name == SceneFlavorName(flavor)) return flavor;
  }
  return std::nullopt;
}

bool OriginsDiffer(const SceneGeometry& a, const SceneGeometry& b) {
  const bool is_fixed = a.flavor == SceneFlavor::kBlender || a.flavor == SceneFlavor::kInstantNgp;
  return is_fixed && a.flavor == b.flavor && a.frame.origin != b.frame.origin;
}

}  // namespace nerf
